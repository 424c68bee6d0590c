// One canvas a head: rows look, columns are looked at. Labels thin out and cells shrink with the length.

const MIN_CELL_SIZE = 2;
const MAX_CELL_SIZE = 34;
const MAX_LABEL_LENGTH = 16;

function heatMaps(picture) {
  const strongest = Math.max(0.05, ...picture.heads.map((head) => head.matrix.values.reduce((a, b) => Math.max(a, b), 0)));
  const grid = element("div", { class: `maps count-${Math.min(picture.heads.length, 2)}` });
  return {
    node: element("div", {}, grid, legend(strongest)),
    ready: () => grid.append(...picture.heads.map((head) => heatMap(picture, head, strongest, grid.clientWidth))),
  };
}

function legend(strongest) {
  return ramp(`${say("weight")} 0`, number(strongest));
}

function ramp(least, most) {
  const stops = Array.from({ length: 9 }, (_, step) => scaleColour(step / 8)).join(",");
  return element("p", { class: "legend muted" }, `${least} `,
    element("i", { class: "ramp", style: { background: `linear-gradient(to right, ${stops})` } }), ` ${most}`);
}

function heatMap(picture, head, strongest, gridWidth) {
  const { T, S } = head.matrix;
  const columns = picture.heads.length > 1 && gridWidth >= 700 ? 2 : 1;
  const available = (gridWidth - 24 * (columns - 1)) / columns - 2;
  const margins = { left: marginFor(picture.queries, available * 0.3), top: marginFor(picture.keys, 110) };
  const cell = Math.min(MAX_CELL_SIZE, Math.max(MIN_CELL_SIZE, Math.floor((available - margins.left) / S)));
  const size = { width: margins.left + cell * S + 1, height: margins.top + cell * T + 1 };
  const ratio = Math.min(window.devicePixelRatio || 1, 4096 / Math.max(size.width, size.height));
  const label = say("Heat map, {title}: {queries} rows that look, {keys} columns that are looked at. Arrow keys move.", { title: head.title, queries: T, keys: S });
  const canvas = element("canvas", {
    width: Math.ceil(size.width * ratio), height: Math.ceil(size.height * ratio), tabindex: 0, role: "img", "aria-label": label,
    style: { width: `${size.width}px`, height: `${size.height}px` },
  });
  paint(canvas.getContext("2d"), ratio, picture, head, strongest, margins, cell);
  const frame = element("div", { class: "frame" }, canvas, ...crosshair(margins, cell, T, S));
  explore(canvas, margins, cell, T, S);
  const title = element("figcaption", {}, element("i", { class: "dot", style: { background: head.colour } }), head.title);
  return element("figure", { class: `heat-map${head.isOff ? " is-off" : ""}` }, title, element("div", { class: "scroll" }, frame));
}

const LABEL_FONT = "system-ui, sans-serif";
const measure = document.createElement("canvas").getContext("2d");

function marginFor(labels, most) {
  measure.font = `12px ${LABEL_FONT}`;
  const widest = labels.slice(0, 400).reduce((width, label) => Math.max(width, measure.measureText(shortened(label, MAX_LABEL_LENGTH)).width), 0);
  return Math.ceil(Math.min(most, widest + 10));
}

function paint(context, ratio, picture, head, strongest, margins, cell) {
  const { T, S, values } = head.matrix;
  context.scale(ratio, ratio);
  const image = new ImageData(S, T);
  const steps = scaleSteps();
  values.forEach((value, i) => {
    image.data.set(steps[Math.round(255 * Math.min(1, value / strongest))], 4 * i);
    image.data[4 * i + 3] = 255;
  });
  const small = element("canvas", { width: S, height: T });
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, margins.left, margins.top, S * cell, T * cell);
  const style = getComputedStyle(document.documentElement);
  context.strokeStyle = style.getPropertyValue("--line");
  context.strokeRect(margins.left + 0.5, margins.top + 0.5, S * cell, T * cell);
  context.fillStyle = style.getPropertyValue("--ink");
  context.font = `${Math.max(9, Math.min(12, cell - 1))}px ${LABEL_FONT}`;
  context.textBaseline = "middle";
  const every = Math.ceil(11 / cell);
  for (let row = 0; row < T; row += every) write(context, picture.queries[row], margins.left - 5, margins.top + (row + 0.5) * cell, 0, "right", margins.left - 6);
  for (let column = 0; column < S; column += every) write(context, picture.keys[column], margins.left + (column + 0.5) * cell, margins.top - 5, -Math.PI / 2, "left", margins.top - 6);
}

function write(context, label, x, y, angle, align, longest) {
  context.save();
  context.translate(x, y);
  context.rotate(angle);
  context.textAlign = align;
  context.fillText(shortened(label, MAX_LABEL_LENGTH), 0, 0, longest);
  context.restore();
}

// Bands over the row and the column under the light; they move, the canvas stays.
function crosshair(margins, cell, T, S) {
  const band = (name) => element("span", { class: `band ${name}`, hidden: true });
  const [row, column] = [band("row"), band("column")];
  const layOut = (node, left, top, width, height) => {
    for (const [key, value] of Object.entries({ left, top, width, height })) node.style[key] = `${value}px`;
  };
  const show = (at) => {
    row.hidden = !at || at.query === null;
    column.hidden = !at || at.key === null;
    if (!row.hidden) layOut(row, 0, margins.top + at.query * cell, margins.left + S * cell, cell);
    if (!column.hidden) layOut(column, margins.left + at.key * cell, 0, cell, margins.top + T * cell);
  };
  lightListeners.push(show);
  show(lookedAt());
  return [row, column];
}

function explore(canvas, margins, cell, T, S) {
  const within = (value, count) => Math.min(count - 1, Math.max(0, value));
  const cellOf = (event) => {
    const box = canvas.getBoundingClientRect();
    const key = Math.floor((event.clientX - box.left - margins.left) / cell);
    const query = Math.floor((event.clientY - box.top - margins.top) / cell);
    if (key < 0 && query < 0) return null;
    return { query: query < 0 ? null : within(query, T), key: key < 0 ? null : within(key, S) };
  };
  canvas.addEventListener("pointermove", (event) => event.pointerType !== "touch" && look(cellOf(event)));
  canvas.addEventListener("pointerleave", () => look(null));
  canvas.addEventListener("click", (event) => look(cellOf(event), true));
  canvas.addEventListener("blur", () => look(null));
  canvas.addEventListener("keydown", (event) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    if (event.key === "Enter" && lookedAt()) look(lookedAt(), true);
    if (!down && !right) return;
    event.preventDefault();
    const from = lookedAt();
    look({ query: from ? within((from.query ?? 0) + down, T) : 0, key: from ? within((from.key ?? 0) + right, S) : 0 });
  });
}
