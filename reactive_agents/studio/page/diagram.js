// The diagram of a plan or a tree: boxes at the places that the studio worked out.

import { h, svg } from "./dom.js";

export function diagram(given, { label, choose }) {
  const [width, height] = given.box;
  const drawing = svg("svg", {
    viewBox: `0 0 ${given.width} ${given.height}`, width: given.width, height: given.height,
    role: "group", "aria-label": label, class: "diagram",
  });
  for (const d of given.paths) drawing.append(svg("path", { d, class: "edge" }));
  for (const each of given.boxes) {
    const box = svg("g", { class: `box ${each.state}`, transform: `translate(${each.x},${each.y})`, "data-id": each.id },
      svg("title", {}, `${each.id}: ${each.title} (${each.state}, ${each.note})`),
      svg("rect", { width, height, rx: 6 }),
      each.lines.map((line, at) => svg("text", { x: 12, y: 24 + 17 * at, class: "box-title" }, line)),
      svg("text", { x: 12, y: height - 13, class: "box-note" }, each.short_note));
    if (choose) {
      box.setAttribute("tabindex", "0");
      box.setAttribute("role", "button");
      box.addEventListener("click", () => choose(each));
      box.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          choose(each);
        }
      });
    }
    drawing.append(box);
  }
  return h("div", { class: "diagram-frame", tabindex: "0", role: "region", "aria-label": label }, drawing);
}
