// The search as a tree: columns are steps, rows the ranks in the beam; drawn up to the chosen step.

const NODE = { width: 92, height: 30, gap: 34, top: 22 };

// Every candidate that lives on or ends, with its step, its row in that step and its parent.
function beamNodes(beam) {
  let living = [{ step: 0 }];
  return beam.steps.flatMap((candidates, index) => {
    const nodes = candidates
      .map(([parent, token, logProbability, score, fate], rank) =>
        ({ step: index + 1, rank, token, logProbability, score, fate, parent: living[parent], own: ownProbability(beam, index + 1, candidates[rank]) }))
      .filter((node) => node.fate !== "falls");
    nodes.forEach((node, row) => { node.row = row; });
    living = nodes.filter((node) => node.fate === "lives");
    return nodes;
  });
}

function beamTree(beam) {
  const nodes = beamNodes(beam);
  const rows = Math.max(...nodes.map((node) => node.row)) + 1;
  const size = { width: (beam.steps.length + 0.4) * (NODE.width + NODE.gap), height: NODE.top + rows * (NODE.height + 8) };
  const svg = drawn("svg", { width: size.width, height: size.height, role: "img", "aria-label": say("Beam tree: columns are steps, rows are ranks in the beam, best on top; the thick path is that of the chosen sentence"), class: "tree" });
  for (let step = 1; step <= beam.steps.length; step++) {
    svg.append(drawn("text", { x: left(step) + NODE.width / 2, y: 12, class: "step-number", "data-step": step }, String(step)));
  }
  const edges = nodes.filter((node) => node.parent.step).map((node) => [node, edge(node)]);
  const parts = [...edges, ...nodes.map((node) => [node, treeNode(node)])];
  svg.append(...parts.map(([, part]) => part));
  const scroll = element("div", { class: "scroll tree-box", tabindex: 0 }, svg);
  const highlight = (path) => parts.forEach(([{ step, rank }, part]) => part.classList.toggle("best", path[step - 1] === rank));
  return { node: scroll, show: (step) => showTree(scroll, svg, step), highlight };
}

function left(step) {
  return (step - 1) * (NODE.width + NODE.gap) + 2;
}

function middle(node) {
  return NODE.top + node.row * (NODE.height + 8) + NODE.height / 2;
}

function edge(node) {
  const [x, y] = [left(node.parent.step) + NODE.width, middle(node.parent)];
  const [tox, toy] = [left(node.step), middle(node)];
  return drawn("path", {
    d: `M${x} ${y}C${x + NODE.gap / 2} ${y} ${tox - NODE.gap / 2} ${toy} ${tox} ${toy}`,
    class: "edge", "data-step": node.step,
  });
}

function treeNode(node) {
  const label = node.fate === "ends" ? `■ ${say("end")}` : shortened(node.token, 12);
  const text = drawn("text", { x: left(node.step) + NODE.width / 2, y: middle(node) - 1, class: "token-label" }, label);
  const score = drawn("text", { x: left(node.step) + NODE.width / 2, y: middle(node) + 11, class: "token-score" }, percent(node.own));
  const box = drawn("rect", { x: left(node.step), y: middle(node) - NODE.height / 2, width: NODE.width, height: NODE.height, rx: 7 });
  const title = drawn("title", {}, `${visible(node.token)}  ${percent(node.own)} · ${say("log p, cumulative")} ${number(node.logProbability)} · ${say("score")} ${number(node.score)}`);
  return drawn("g", { class: `node ${node.fate}`, "data-step": node.step }, title, box, text, score);
}

function showTree(scroll, svg, step) {
  svg.querySelectorAll("[data-step]").forEach((node) => {
    node.classList.toggle("later", Number(node.dataset.step) > step);
    node.classList.toggle("now", Number(node.dataset.step) === step);
  });
  scroll.scrollLeft = left(step) - scroll.clientWidth / 2 + NODE.width / 2;
}
