// A lesson: steps of a text, each with the state of the page that it begins in; what the reader changes then is free.

const NEAR_ENOUGH = 0.05; // of a weight that is read off the picture
const lesson = { step: 0, drawn: "", tries: {}, goTo: goToKeptState, isReady: () => true };

// A text of a lesson in the language of the page, or in the only one that it was written in.
function inLanguage(texts) {
  return texts[state.language] ?? Object.values(texts)[0];
}

function drawLesson() {
  const box = document.getElementById("lesson");
  if (!box) return;
  box.hidden = !DATA.lesson;
  if (!DATA.lesson) return;
  const tried = (lesson.tries[lesson.step] ??= { typed: "", verdict: "", hints: 0 });
  const drawn = JSON.stringify([lesson.step, state.language, tried.verdict, tried.hints, lesson.isReady()]);
  if (drawn === lesson.drawn) return; // what is typed as an answer stays
  lesson.drawn = drawn;
  const { title, steps } = DATA.lesson;
  const focused = box.contains(document.activeElement) ? document.activeElement.id : "";
  const count = steps.length;
  const { heading: name, text, question } = steps[lesson.step];
  const go = (id, label, step) => button(label, { id, class: "quiet", disabled: step < 0 || step >= count || !lesson.isReady(), onclick: () => goToLessonStep(step) });
  box.setAttribute("aria-label", inLanguage(title));
  box.replaceChildren(
    heading(inLanguage(title)),
    element("h3", {}, inLanguage(name)),
    element("p", { id: "lesson-text", "aria-live": "polite" }, inLanguage(text)),
    ...(question ? [questionForm(question, tried)] : []),
    element("div", { class: "stepper" }, go("lesson-back", say("‹ Back"), lesson.step - 1), go("lesson-again", say("Start this step again"), lesson.step),
      go("lesson-next", say("Next ›"), lesson.step + 1), button(say("Print the worksheet"), { id: "lesson-print", class: "quiet", onclick: () => print() }),
      element("output", { class: "step-title" }, say("Step {step} of {count}", { step: lesson.step + 1, count }))));
  if (focused) document.getElementById(focused)?.focus();
  drawWorksheet();
}

function questionForm(question, tried) {
  const field = element("input", { id: "lesson-answer", type: "text", autocomplete: "off", placeholder: question.kind === "head" ? say("layer.head, as in 2.1") : null, oninput: () => { tried.typed = field.value; } });
  field.value = tried.typed;
  const hints = inLanguage(question.hints);
  const more = button(say("Hint"), { id: "lesson-hint", class: "quiet", disabled: tried.hints >= hints.length, onclick: () => { tried.hints += 1; drawLesson(); } });
  const verdicts = { right: () => say("Right: {answer}.", { answer: question.right[0] }), wrong: () => say("Not so; look again.") };
  const verdict = tried.verdict ? verdicts[tried.verdict]() + (tried.verdict === "right" && question.weight !== null ? ` (${number(question.weight)})` : "") : "";
  const check = (event) => {
    event.preventDefault();
    tried.verdict = isRightAnswer(question, field.value) ? "right" : "wrong";
    drawLesson();
  };
  return element("form", { id: "lesson-question", onsubmit: check },
    element("label", { for: "lesson-answer" }, inLanguage(question.text)), field, element("button", { type: "submit", id: "lesson-check", class: "quiet" }, say("Check")),
    ...(hints.length ? [more] : []), element("output", { id: "lesson-verdict", for: "lesson-answer" }, verdict),
    element("ul", { id: "lesson-hints" }, ...hints.slice(0, tried.hints).map((hint) => element("li", {}, hint))));
}

// As `is_right` of dikkat.explain.lesson judges it.
function isRightAnswer({ kind, right }, typed) {
  if (kind === "weight") return Math.abs(Number(typed.trim().replace(",", ".")) - Number(right[0])) <= NEAR_ENOUGH && typed.trim() !== "";
  if (kind === "head") return right.includes((typed.match(/\d+/gu) ?? []).join("."));
  return right.map(bareText).includes(bareText(typed));
}

function bareText(text) {
  const characters = [...text.toLowerCase()], isInside = (character) => /[\p{L}\p{N}_]/u.test(character);
  return characters.slice(characters.findIndex(isInside), characters.findLastIndex(isInside) + 1).join("");
}

function goToLessonStep(step) {
  lesson.step = step;
  drawLesson();
  return lesson.goTo(DATA.lesson.steps[step].set, step);
}

// The state of a step in a page whose sentences are all in the file.
function goToKeptState({ update, sentence = 0, heads, layer = Infinity, look: word = null, kind = state.kind, view = state.view }) {
  const { updates } = DATA.training ?? { updates: [0] };
  const distance = (at) => Math.abs(updates[at] - (update ?? updates.at(-1)));
  const nearest = [...updates.keys()].reduce((best, at) => (distance(at) < distance(best) ? at : best), 0);
  const texts = DATA.sentences.length / looks();
  change({ sentence: Math.min(sentence, texts - 1) * looks() + nearest, kind: KINDS.includes(kind) ? kind : KINDS.at(-1), view, layer, rollout: false, heads: new Set(heads ?? []), tab: "maps", words: Boolean(word) });
  const { source, target } = currentSentence();
  const isQuery = state.kind !== "cross";
  const names = (state.kind === "encoder-self" || state.kind === "cross" ? source : target).words;
  const at = word === null ? -1 : names.findIndex((other) => bareText(other) === bareText(word));
  if (at >= 0) look(isQuery ? { query: at, key: null } : { query: null, key: at }, true);
}

// All steps for a printer, with lines to write on; only print shows it.
function drawWorksheet() {
  const { title, steps } = DATA.lesson;
  document.getElementById("worksheet").replaceChildren(heading(inLanguage(title)), element("p", {}, say("Name:"), element("span", { class: "lines" })),
    ...steps.map(({ heading: name, text, question, set }, at) => element("article", {},
      element("h3", {}, `${at + 1}. ${inLanguage(name)}`), ...(set.text ? [element("p", {}, element("bdi", {}, `“${visible(set.text)}”`))] : []), element("p", {}, inLanguage(text)),
      ...(question ? [element("p", {}, element("b", {}, inLanguage(question.text))), element("div", { class: "lines" }), element("div", { class: "lines" })] : []))));
}
