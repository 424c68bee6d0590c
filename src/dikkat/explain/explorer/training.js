// Over the training: the same sentence after more and more updates, beside the loss and the entropy of each head.

const FRAME_MILLISECONDS = 500;
const CHART = { width: 640, height: 150, left: 34, right: 34, top: 10, bottom: 22 };
let playing = 0;

// How many looks at one text stand after the other among the sentences.
function looks() {
  return DATA.training ? DATA.training.updates.length : 1;
}

function textNumber(sentence = state.sentence) {
  return Math.floor(sentence / looks());
}

function goToLook(look) {
  const last = looks() - 1;
  change({ sentence: textNumber() * looks() + Math.min(last, Math.max(0, look)) });
}

function drawTraining() {
  const box = document.getElementById("training");
  if (!box || !DATA.training) return;
  const focused = box.contains(document.activeElement) ? document.activeElement.id : "";
  const look = state.sentence % looks();
  const update = DATA.training.updates[look].toLocaleString(state.language);
  const slider = element("input", { type: "range", id: "look", min: 0, max: looks() - 1, value: look, "aria-label": say("Update of the training"),
    "aria-valuetext": say("update {update}", { update }), oninput: () => goToLook(Number(slider.value)) });
  const play = button((playing ? say("Pause") : say("Play")), { id: "play", class: "quiet", onclick: togglePlaying });
  box.hidden = false;
  box.setAttribute("aria-label", say("Update of the training"));
  box.replaceChildren(element("div", { class: "stepper" }, play, slider, element("output", { class: "step-title", for: "look" }, say("update {update}", { update }))),
    trainingChart(look), rolesNow(look));
  if (focused) document.getElementById(focused)?.focus();
}

function togglePlaying() {
  clearInterval(playing);
  playing = playing ? 0 : setInterval(nextLook, FRAME_MILLISECONDS);
  if (playing && state.sentence % looks() === looks() - 1) goToLook(0);
  else drawTraining();
}

function nextLook() {
  const look = state.sentence % looks();
  if (look === looks() - 1) return togglePlaying();
  goToLook(look + 1);
}

// Updates on a logarithmic axis, since the looks grow apart; the loss on the left axis, entropies on the right one.
function trainingChart(look) {
  const { updates, losses, entropy } = DATA.training;
  const curves = entropy[state.kind][state.layer].map((values, head) => ({ colour: headColour(head), points: values.map((value, at) => [updates[at], value]) }));
  const loss = losses.map(([update, value]) => [update, value]);
  const last = Math.log(updates.at(-1) + 1);
  const x = (update) => CHART.left + ((CHART.width - CHART.left - CHART.right) * Math.log(Math.min(update, updates.at(-1)) + 1)) / last;
  const y = (value, most) => CHART.height - CHART.bottom - (CHART.height - CHART.top - CHART.bottom) * (value / most);
  const mostLoss = Math.max(1e-6, ...loss.map(([, value]) => value));
  const mostEntropy = Math.max(1e-6, ...curves.flatMap(({ points }) => points.map(([, value]) => value)));
  const line = (points, most, properties) => drawn("path", { d: points.map(([update, value], at) => `${at ? "L" : "M"}${x(update).toFixed(1)} ${y(value, most).toFixed(1)}`).join(""), fill: "none", ...properties });
  const label = (text, left, top, anchor) => drawn("text", { x: left, y: top, "text-anchor": anchor, "font-size": 11, fill: "currentColor" }, text);
  const bottom = CHART.height - CHART.bottom;
  const cursor = drawn("line", { x1: x(updates[look]), x2: x(updates[look]), y1: CHART.top, y2: bottom, stroke: "currentColor", "stroke-dasharray": "3 3" });
  const ticks = [0, Math.floor(looks() / 2), looks() - 1].map((at) => label(updates[at].toLocaleString(state.language), x(updates[at]), CHART.height - 6, "middle"));
  const svg = drawn("svg", { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img", class: "training-chart", "aria-label": say("Loss (dashed, left axis) and entropy of each head in nats (right axis) over the updates: {kind}, layer {layer}", { layer: state.layer + 1, kind: say(LONG_KIND_NAMES[state.kind]) }) },
    drawn("line", { x1: CHART.left, x2: CHART.width - CHART.right, y1: bottom, y2: bottom, stroke: "currentColor", opacity: 0.4 }),
    ...curves.map(({ colour, points }) => line(points, mostEntropy, { stroke: colour, "stroke-width": 1.6 })),
    line(loss, mostLoss, { stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": "6 3" }), cursor, ...ticks,
    label(number(mostLoss, 1), CHART.left - 4, CHART.top + 8, "end"), label("0", CHART.left - 4, bottom, "end"),
    label(number(mostEntropy, 1), CHART.width - CHART.right + 4, CHART.top + 8, "start"), label("0", CHART.width - CHART.right + 4, bottom, "start"));
  return element("figure", { class: "training-figure" }, svg, element("figcaption", { class: "muted" }, say("Loss (dashed, left axis) and entropy of each head in nats (right axis) over the updates: {kind}, layer {layer}", { layer: state.layer + 1, kind: say(LONG_KIND_NAMES[state.kind]) })));
}

// What each head of the chosen layer is drawn to after this update, and since when.
function rolesNow(look) {
  const { roles, shares } = DATA.training;
  const drawn = (head, at) => ({ role: roles[state.kind][state.layer][head][at], share: shares[state.kind][state.layer][head][at] });
  return element("p", { class: "roles-now muted" }, `${say("Over all sentences:")} `, ...roles[state.kind][state.layer].map((role, head) => {
    let since = look;
    while (since > 0 && role[since - 1] === role[look]) since -= 1;
    const update = DATA.training.updates[since].toLocaleString(state.language);
    return element("span", {}, element("i", { class: "dot", style: { background: headColour(head) } }), say("Head {head}: {role} since update {update}.", { head: head + 1, role: roleText(drawn(head, look)), update }), " ");
  }));
}
