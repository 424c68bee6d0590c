// Texts and numbers in the language of the page; MESSAGES holds, by language, what this page says in it.

function say(template, values = {}) {
  const text = MESSAGES[state.language]?.[template] ?? template;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// A text that is said later.
function msg(template) {
  return template;
}

function capitalized(text) {
  return text.slice(0, 1).toLocaleUpperCase(state.language) + text.slice(1);
}

// What rounds to zero has no sign.
function number(value, digits = 2) {
  const rounded = Number(value.toFixed(digits)) + 0;
  return rounded.toLocaleString(state.language, { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");
}

// A share as per cent, with more digits near none and near all: what is not certain never shows as 100.
function percent(share) {
  if (share > 0 && share < 0.0001) return `< ${percent(0.0001)}`;
  const digits = share > 0.995 && share < 1 ? 2 : share >= 0.1 || share === 0 || share === 1 ? 0 : share >= 0.01 ? 1 : 2;
  const shown = share < 1 ? Math.min(share, 0.9999) : 1;
  return shown.toLocaleString(state.language, { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits });
}
