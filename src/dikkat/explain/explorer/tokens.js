// A list of tokens that can be pointed at, walked with the arrow keys and kept by a click or Enter.

// Each token is a button; only one of a list is a stop for Tab.
function tokenList(tokens, label, axis, properties = {}) {
  const list = element("div", { role: "group", "aria-label": label, ...properties, class: `tokens ${properties.class ?? ""}` });
  const cellAt = (index) => (axis === "query" ? { query: index, key: null } : { query: null, key: index });
  tokens.forEach((token, index) => {
    list.append(
      button(isolated(token), {
        class: "token", "data-index": index, tabindex: index ? -1 : 0, title: visible(token),
        onpointerenter: (event) => event.pointerType !== "touch" && look(cellAt(index)),
        onpointerleave: () => look(null),
        onfocus: () => look(cellAt(index)),
        onblur: () => look(null),
        onclick: () => look(cellAt(index), true),
      }),
    );
  });
  list.addEventListener("keydown", walk);
  return list;
}

const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

function walk(event) {
  const tokens = event.currentTarget.children;
  const index = [...tokens].indexOf(event.target);
  const next = event.key === "Home" ? 0 : event.key === "End" ? tokens.length - 1 : index + (STEPS[event.key] ?? NaN);
  if (index < 0 || !tokens[next]) return;
  event.preventDefault();
  tokens[index].tabIndex = -1;
  tokens[next].tabIndex = 0;
  tokens[next].focus();
}

// A strip of one segment a head, its opacity the head's weight.
function strip(heads, weightOf, className) {
  return element("span", { class: `strip ${className}`, "aria-hidden": "true" },
    ...heads.map((head) => element("i", { style: { background: head.colour, opacity: weightOf(head.matrix).toFixed(3) } })));
}

function setStrips(list, heads, className, weightOf) {
  list.querySelectorAll(`.${className}`).forEach((old) => old.remove());
  if (!weightOf) return;
  [...list.children].forEach((token, index) => {
    if (heads.some((head) => weightOf(head.matrix, index) >= 0.004)) {
      token.prepend(strip(heads, (matrix) => weightOf(matrix, index), className));
    }
  });
}

function mark(list, index) {
  list.querySelector(".chosen")?.classList.remove("chosen");
  list.children[index]?.classList.add("chosen");
}
