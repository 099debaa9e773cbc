// The diagram of a plan or a tree: boxes at the places that the studio worked out.

import { h, svg } from "./dom.js";

export function diagram(given, { label, choose }) {
  const [width, height] = given.box;
  const places = new Map(given.boxes.map((each) => [each.id, each]));
  const down = given.edges.every(([first, then]) => places.get(first).y < places.get(then).y);
  const drawing = svg("svg", {
    viewBox: `0 0 ${given.width} ${given.height}`, width: given.width, height: given.height,
    role: "group", "aria-label": label, class: "diagram",
  });
  for (const [first, then] of given.edges) {
    drawing.append(svg("path", { d: curve(places.get(first), places.get(then), width, height, down), class: "edge" }));
  }
  for (const each of given.boxes) {
    const box = svg("g", { class: `box ${each.state}`, transform: `translate(${each.x},${each.y})`, "data-id": each.id },
      svg("title", {}, `${each.id}: ${each.title} (${each.state}, ${each.note})`),
      svg("rect", { width, height, rx: 6 }),
      each.lines.map((line, at) => svg("text", { x: 12, y: 24 + 17 * at, class: "box-title" }, line)),
      svg("text", { x: 12, y: height - 13, class: "box-note" }, cut(each.note, 32)));
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

function curve(first, then, width, height, down) {
  if (down) {
    const [x0, y0, x1, y1] = [first.x + width / 2, first.y + height, then.x + width / 2, then.y];
    return `M${x0},${y0} C${x0},${(y0 + y1) / 2} ${x1},${(y0 + y1) / 2} ${x1},${y1}`;
  }
  const [x0, y0, x1, y1] = [first.x + width, first.y + height / 2, then.x, then.y + height / 2];
  return `M${x0},${y0} C${(x0 + x1) / 2},${y0} ${(x0 + x1) / 2},${y1} ${x1},${y1}`;
}

const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
