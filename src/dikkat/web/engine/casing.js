// Small and large letters, with the dotless and the dotted i of Turkish and Azeri.

function lowered(text, hasDottedI) {
  return (hasDottedI ? text.replace(/İ|I\u0307/g, "i").replaceAll("I", "ı") : text).toLowerCase();
}

function uppered(text, hasDottedI) {
  return (hasDottedI ? text.replaceAll("i", "İ") : text).toUpperCase();
}

// A capital at the beginning, unless a letter such as ß has none of its own.
function capitalized(text, hasDottedI) {
  const [letter = ""] = text;
  const capital = uppered(letter, hasDottedI);
  return ([...capital].length === 1 ? capital : letter) + text.slice(letter.length);
}
