// Texts and numbers in the language of the page; MESSAGES holds, by language, what this page says in it.

function say(template, values = {}) {
  const text = MESSAGES[state.language]?.[template] ?? template;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// A text that is said later.
function msg(template) {
  return template;
}

// What rounds to zero has no sign.
function number(value, digits = 2) {
  const rounded = Number(value.toFixed(digits)) + 0;
  return rounded.toLocaleString(state.language, { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");
}
