// One sentence: its other translations, a better one by whoever reads it, and where the model looked.

import { attentionView } from "./attention.js";
import { button, element } from "./elements.js";
import { say } from "./strings.js";

export function sentenceDetails(served, tell, { changed }) {
  const list = element("ul", { class: "alternatives" });
  const source = element("p", { class: "muted source-sentence", dir: "auto" });
  const attention = attentionView(served);
  const left = element("div", { class: "sentence-side" }, element("h2", {}, say("details")), source, element("h3", {}, say("alternatives")), list);
  const node = element("section", { class: "pane details", hidden: true }, left, attention.node);

  function show(model, sentence) {
    node.hidden = !sentence;
    attention.show(model, sentence);
    if (!sentence) return;
    source.textContent = sentence.source;
    const others = sentence.alternatives ?? [];
    list.replaceChildren(...(others.length ? others.map((text) => alternative(sentence, text)) : [element("li", { class: "muted" }, say("noAlternatives"))]));
  }

  function alternative(sentence, text) {
    const use = () => {
      const rest = sentence.alternatives.map((other) => (other === text ? sentence.target : other));
      changed(sentence.source, { target: text, alternatives: rest });
    };
    return element("li", {}, button(text, { class: "alternative", dir: "auto", "aria-label": say("use", { text }), onclick: use }));
  }

  return { node, show };
}
