// A list of any length: only the rows in sight are in the page.

import { h } from "./dom.js";

const SPARE = 8;

export class VirtualList {
  constructor({ label, rowHeight, render, choose, open }) {
    this.items = [];
    this.selected = -1;
    this.rowHeight = rowHeight;
    this.render = render;
    this.choose = choose;
    this.pool = new Map();
    this.free = [];
    this.wanted = false;
    this.space = h("div", { class: "list-space", role: "presentation" });
    this.element = h("div", {
      class: "list", role: "listbox", tabindex: "0", "aria-label": label,
      onscroll: () => this.refresh(), onkeydown: (event) => this.key(event, open),
    }, this.space);
    this.space.addEventListener("click", (event) => {
      const row = event.target.closest("[data-index]");
      if (row) this.select(Number(row.dataset.index), true);
    });
    this.watcher = new ResizeObserver(() => this.refresh());
    this.watcher.observe(this.element);
  }

  set(items, keep) {
    const at = keep ?? -1;
    this.items = items;
    this.selected = at;
    this.space.style.setProperty("height", `${items.length * this.rowHeight}px`);
    this.draw(true);
  }

  get isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    return scrollHeight - scrollTop - clientHeight < 2 * this.rowHeight;
  }

  toEnd() {
    this.element.scrollTop = this.element.scrollHeight;
  }

  refresh() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => {
      this.wanted = false;
      this.draw(false);
    });
  }

  draw(all) {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - SPARE);
    const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + SPARE);
    for (const [index, row] of this.pool) {
      if (index < first || index >= last) {
        this.pool.delete(index);
        this.free.push(row);
      }
    }
    for (let index = first; index < last; index++) {
      let row = this.pool.get(index);
      if (row && !all) continue;
      if (!row) {
        row = this.free.pop() ?? this.make();
        this.pool.set(index, row);
      }
      this.place(row, index);
    }
    for (const row of this.free) row.hidden = true;
    const chosen = this.pool.get(this.selected);
    if (chosen) this.element.setAttribute("aria-activedescendant", chosen.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  make() {
    const row = h("div", { class: "row", role: "option" });
    this.space.append(row);
    return row;
  }

  place(row, index) {
    row.hidden = false;
    row.id = `row-${index}`;
    row.dataset.index = index;
    row.style.setProperty("transform", `translateY(${index * this.rowHeight}px)`);
    row.setAttribute("aria-posinset", index + 1);
    row.setAttribute("aria-setsize", this.items.length);
    row.setAttribute("aria-selected", index === this.selected);
    this.render(row, this.items[index], index);
  }

  select(index, told) {
    if (index < 0 || index >= this.items.length) return;
    this.selected = index;
    const top = index * this.rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + clientHeight) this.element.scrollTop = top + this.rowHeight - clientHeight;
    this.draw(true);
    if (told) this.choose(this.items[index], index);
  }

  key(event, open) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity, j: 1, k: -1 };
    if (event.key === "Enter") {
      open?.();
      event.preventDefault();
      return;
    }
    const move = event.ctrlKey || event.metaKey || event.altKey ? undefined : moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const target = Math.min(this.items.length - 1, Math.max(0, this.selected < 0 && move > 0 ? 0 : this.selected + move));
    this.select(target, true);
  }

  close() {
    this.watcher.disconnect();
  }
}
