// The controls above the picture. They are drawn anew with every change, and the focus stays where it was.

function drawControls() {
  const controls = document.getElementById("controls");
  const where = controls.contains(document.activeElement) ? [...controls.querySelectorAll("button")].indexOf(document.activeElement) : -1;
  const wanted = { maps: [kinds, layers, heads, views, tokenSizes, rowNames], decoding: [layers, heads], importance: [layers, heads], six: [kinds, layers] }[state.tab] ?? [];
  controls.replaceChildren(...wanted.map((make) => make()).filter(Boolean));
  controls.hidden = !wanted.length;
  if (where >= 0) controls.querySelectorAll("button")[where]?.focus();
}

function kinds() {
  return KINDS.length < 2 ? null : segments(say("Kind"), KINDS.map((kind) => [kind, say(KIND_NAMES[kind]), say(LONG_KIND_NAMES[kind])]), state.kind, (kind) => change({ kind }));
}

function layers() {
  const count = currentSentence().maps[state.kind].length;
  const choices = Array.from({ length: count }, (_, layer) => [layer, String(layer + 1), say("Layer {number}", { number: layer + 1 })]);
  return segments(say("Layer"), choices, state.layer, (layer) => change({ layer }));
}

function heads() {
  const buttons = [...allHeads()].map(headButtons);
  const all = button(say("All"), { id: "all-heads", onclick: chooseAllHeads });
  const canRoll = state.tab === "maps" && currentSentence().rollout[state.kind];
  const roll = canRoll
    ? button(say("Rollout"), { id: "rollout", class: "head", "aria-pressed": String(state.rollout), title: say("Attention rollout through the layers up to the chosen one"), style: { "--colour": rolloutColour() }, onclick: toggleRollout })
    : null;
  return element("div", { class: "group" }, element("span", { class: "label" }, say("Heads")),
    element("div", { class: "segments heads", role: "group", "aria-label": say("Heads") }, ...buttons, all, ...[roll].filter(Boolean)));
}

// A head, which is shown alone by a click, and the sign next to it, which hides it or shows it again.
function headButtons(head) {
  const number = head + 1;
  const isShown = !state.rollout && state.heads.has(head);
  const role = state.rollout ? "" : roleText(rolesOf(state.kind, state.layer)[head]);
  const label = isGuided(state.kind, state.layer, head) ? say("Show head {number} alone, which was guided in training", { number }) : say("Show head {number} alone", { number });
  const isOff = isKeptOff(state.kind, state.layer, head);
  const hiding = isShown ? say("Hide head {number}", { number }) : say("Show head {number} too", { number });
  return element("span", { class: "head-choice" },
    button(String(number), { class: `head${isGuided(state.kind, state.layer, head) ? " is-guided" : ""}${isOff ? " is-off" : ""}`, "aria-pressed": String(isShown), "data-head": head, "aria-label": label,
      title: [label, isOff ? say("This head is off: the model takes zeros instead.") : "", role].filter(Boolean).join(" · "), style: { "--colour": shownColour(head) }, onclick: ({ shiftKey }) => (shiftKey ? toggleHead(head) : showAlone(head)) }),
    button(isShown ? "−" : "+", { class: "hide-head", "data-hide": head, "aria-label": hiding, title: hiding, onclick: () => toggleHead(head) }));
}

function chooseAllHeads() {
  change({ heads: allHeads(), rollout: false });
}

function toggleRollout() {
  change({ rollout: !state.rollout });
}

function views() {
  return segments(say("View"), VIEWS.map((view) => [view, say(VIEW_NAMES[view])]), state.view, (view) => change({ view }));
}

function tokenSizes() {
  const choices = [[false, say("Subwords")], [true, say("Words")]];
  return segments(say("Tokens"), choices, state.words, (words) => change({ words }));
}

function rowNames() {
  if (!(state.kind in state.rows)) return null;
  const choose = (name) => change({ rows: { ...state.rows, [state.kind]: name } });
  const group = segments(say("Rows"), [["read", say("read")], ["written", say("written")]], state.rows[state.kind], choose);
  group.title = say("Name the decoder's rows by the token it has just read, or by the one it is about to write");
  return group;
}

function drawTabs() {
  const tabs = document.getElementById("tabs");
  const focused = tabs.contains(document.activeElement);
  tabs.setAttribute("aria-label", say("What to look at"));
  tabs.replaceChildren(...TABS.map((tab) =>
    button(say(TAB_NAMES[tab]), { role: "tab", id: `tab-${tab}`, "aria-selected": String(tab === state.tab), "aria-controls": "stage", tabindex: tab === state.tab ? 0 : -1, onclick: () => change({ tab }) })));
  if (focused) document.getElementById(`tab-${state.tab}`).focus();
}

function nextOf(list, value, step = 1) {
  return list[(list.indexOf(value) + step + list.length) % list.length];
}
