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
  PANELS.spans = spansTab;
  PANELS.numbers = numbersTab;
  PANELS.next = nextTab;
  PANELS.parts = partsTab;
  isKeptOff = (...name) => live.off.some((other) => String(other) === String(name));
  KEY_ACTIONS.n = () => nextExample(1);
  KEY_ACTIONS.p = () => nextExample(-1);
  Object.assign(TAB_NAMES, { classes: msg("Classes"), spans: msg("Marked words"), numbers: msg("Numbers"), next: msg("What follows"), parts: msg("Layer by layer"), six: msg("Six steps"), positions: msg("Positions") });
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
  const core = taken("core");
  if (DATA.weights) return readWeightsFile(core);
  load({ model: taken("weights"), core }, showFailure);
}

function load(question, fail) {
  const reading = document.getElementById("reading");
  const show = ({ read }) => {
    reading.hidden = false;
    reading.querySelector("progress").value = read / DATA.weights.size;
    reading.querySelector("span").textContent = say("{read} of {size} MB", { read: megabytes(read), size: megabytes(DATA.weights.size) });
  };
  request("load", question, show).then((engine) => {
    reading.hidden = true;
    live.engine = engine;
    const field = document.getElementById("text");
    const begun = field.value; // typed while the model was unpacked
    const isHeld = readHash();
    if (begun) field.value = begun;
    else if (DATA.lesson && !isHeld) return goToLessonStep(0);
    else if (!isHeld) field.value = DATA.examples[0] ?? "";
    return readText();
  }, (error) => {
    reading.hidden = true;
    fail(error);
  });
}

const megabytes = (bytes) => (bytes / 1e6).toFixed(0);

// Reads the model from the file next to the page; where the browser does not give it, from the one that is chosen or dropped.
function readWeightsFile(core) {
  const { file } = DATA.weights;
  const question = { weights: DATA.weights, core };
  if (location.protocol === "file:") return askForFile(question, say(FROM_FOLDER, { file, size: megabytes(DATA.weights.size) }));
  load({ ...question, source: new URL(file, location.href).href }, (error) => askForFile(question, say("{file} could not be read ({reason}). It was written next to this page: choose it, or drop it here.", { file, reason: visible(error.message) })));
}

const FROM_FOLDER = msg("The model of this page is in {file} ({size} MB), next to it. A browser opens it by itself only when the folder is served, as by python -m http.server. Choose the file, or drop it here.");

function askForFile(question, reason) {
  const box = document.getElementById("choose");
  const read = (file) => {
    if (!file || box.hidden) return;
    box.hidden = true;
    live.status = "loading";
    drawStatus();
    load({ ...question, source: file }, (error) => askForFile(question, say("{file} cannot be read: {reason}", { file: visible(file.name), reason: visible(error.message) })));
  };
  const input = element("input", { type: "file", id: "weights-file", onchange: () => read(input.files[0]) });
  box.replaceChildren(element("label", {}, reason, " ", input));
  box.hidden = false;
  live.status = "choosing";
  drawStatus();
  document.ondragover = (event) => event.preventDefault();
  document.ondrop = (event) => {
    event.preventDefault();
    read(event.dataTransfer.files[0]);
  };
}

startLive();
