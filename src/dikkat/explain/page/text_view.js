// The running text: the word under the light colours what it looks at (above the word) and what looks at it (below).

function textView(picture) {
  const queries = tokenList(picture.queries, say("looks"), "query", { class: "running" });
  const keys = sharesItsText() ? queries : tokenList(picture.keys, say("is looked at"), "key", { class: "running" });
  const show = (cell) => {
    const query = cell?.query ?? null;
    const key = cell?.key ?? (queries === keys ? query : null);
    mark(queries, query ?? undefined);
    if (queries !== keys) mark(keys, cell?.key ?? undefined);
    setStrips(keys, picture.heads, "out", query === null ? null : (matrix, at) => matrix.values[query * matrix.S + at]);
    setStrips(queries, picture.heads, "in", key === null ? null : (matrix, at) => matrix.values[at * matrix.S + key]);
  };
  lightListeners.push(show);
  show(lookedAt());
  const sample = (name) => element("span", { class: `sample ${name}` });
  const legend = element("p", { class: "legend muted" }, sample("out"), say("what it looks at"), sample("in"), say("what looks at it"));
  const parts = queries === keys ? [queries] : [element("p", { class: "axis muted" }, say("looks"), " ↓"), queries, element("p", { class: "axis muted" }, say("is looked at")), keys];
  return { node: element("div", { class: "text-view" }, ...parts, legend) };
}

function sharesItsText() {
  return state.kind === "encoder-self" || (state.kind === "decoder-self" && state.rows["decoder-self"] === "read");
}
