// Starts a page that computes: unpacks the model, then reads the text of the address, or the first example.

function startLive() {
  const { tabs, kinds } = READINGS[DATA.task];
  TABS.splice(0, TABS.length, ...tabs);
  KINDS.splice(0, KINDS.length, ...kinds);
  Object.assign(state, { tab: tabs[0], kind: kinds.at(-1) });
  PANELS.heads = liveHeadsTab;
  PANELS.importance = liveImportanceTab;
  PANELS.maps = liveMapsTab;
  PANELS.six = sixStepsTab;
  PANELS.positions = positionsTab;
  PANELS.classes = classesTab;
  PANELS.next = nextTab;
  PANELS.parts = partsTab;
  isKeptOff = (...name) => live.off.some((other) => String(other) === String(name));
  KEY_ACTIONS.n = () => nextExample(1);
  KEY_ACTIONS.p = () => nextExample(-1);
  Object.assign(TAB_NAMES, { classes: msg("Classes"), next: msg("What follows"), parts: msg("Layer by layer"), six: msg("Six steps"), positions: msg("Positions") });
  KEYS.splice(KEYS.findIndex(([keys]) => keys.startsWith("n")), 1, ["/", msg("To the text")], ["n  p", msg("Next, previous example")], ["s", msg("Six steps of the chosen cell")]);
  const field = document.getElementById("text");
  KEY_ACTIONS["/"] = () => field.focus();
  KEY_ACTIONS.s = () => change({ tab: "six" });
  field.addEventListener("input", () => typed(field.value));
  field.addEventListener("click", () => { if ((live.answer?.pieces?.length > 1 || live.answer?.cut) && live.status === "ready") chooseSentence(null); });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    readText();
  });
  listenToAll();
  addEventListener("keydown", (event) => { if (event.key === "/" && event.target !== field) event.preventDefault(); });
  drawFrame();
  startEngine();
  const taken = (id) => {
    const node = document.getElementById(id);
    const text = node.textContent;
    node.remove();
    return text;
  };
  addEventListener("hashchange", () => {
    if (live.engine && readHash()) readText();
  });
  request("load", { model: taken("weights"), core: taken("core") }).then((engine) => {
    live.engine = engine;
    const begun = field.value; // typed while the model was unpacked
    const isHeld = readHash();
    if (begun) field.value = begun;
    else if (DATA.lesson && !isHeld) return goToLessonStep(0);
    else if (!isHeld) field.value = DATA.examples[0] ?? "";
    readText();
  }, showFailure);
}

startLive();
