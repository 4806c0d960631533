// @ts-check
// The panel: controls, views, messages. What computes is an engine: the kernel's (widget.js) or the page's (page.js).

import { Comparison, Pin, sidesFor } from "./compare.js";
    mute([this.message], !message);
    this.root.classList.toggle("pe-told", Boolean(message));
    write(this.message, message ?? "");
  }

  /** @type {(tensors: Tensor[], values: Values, others?: Tensor[] | null) => void} */
  show(tensors, values, others = null) {
    let bad = 0;
    for (const { data } of tensors) for (let i = 0; i < data.length; i++) if (Number.isNaN(data[i])) bad++;
    this.complain(bad ? `${format(bad)} of these numbers ${bad > 1 ? "are" : "is"} not a number (NaN) and left blank.` : null);
    const [mine, theirs] = [this.shares(tensors), others && this.shares(others)];
    this.views.forEach((view, i) => {
      view.values = values;
      if (theirs) this.comparison?.show(view, this.all, mine[i], theirs[i], values);
      view.update(mine[i]);
    });
    even(this.all);
    const first = !this.tensors;
    this.tensors = tensors;
    this.shown = values;
    this.again();
    if (first) {
      this.root.classList.add("pe-live");
      mute(this.root.querySelectorAll(":scope > .pe-stills"), true);
      mute([this.stages], false);
    }
    this.root.dispatchEvent(new CustomEvent("pe-drawn", { detail: values }));
    clearTimeout(this.speaking);
    if (!first) this.speaking = setTimeout(() => this.speak(), 600); // what is there at first, its pictures say
    if (this.data.open) this.tabulate();
  }

  /** One sentence for each view, said once the reader has paused. */
  speak() {
    for (const view of this.all) view.describe();
    write(this.spoken, this.all.map((view) => view.summary(view.tensors)).filter(Boolean).join(" "));
  }

  tabulate() {
    if (!this.data.open || !this.tensors) return;
    tabulated(this.data, this.all, this.spec);
  }

  async copyLink() {
    const address = location.href.replace(/#.*$/, "") + toHash(this.root.id, this.spec.controls, this.values, this.linked());
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address);
      write(this.status, "The link to this state is on the clipboard.");
    } catch {
      write(this.status, "The link to this state is now in the address bar.");
    }
  }

  /** The other state of a link: the pinned one, or that of the other side. */
  linked() {
    return this.comparison ? this.comparison.state(this.values) : this.pinned?.values;
  }

  destroy() {
    this.search = null;
    this.latest.end();
    panels.delete(this);
    if (this.resized) this.root.removeEventListener("fullscreenchange", this.resized);
    this.stop();
    this.watch.disconnect();
    this.sight.disconnect();
    clearTimeout(this.due);
    clearTimeout(this.speaking);
    clearTimeout(this.fading);
    this.body.remove();
  }
}

/** The names of what a formula shows. @type {(tree: Tree) => string[]} */
const placesOf = ([, { place }, children]) =>
  [place, ...children.flatMap((child) => (typeof child === "string" ? [] : placesOf(child)))].filter(Boolean);
