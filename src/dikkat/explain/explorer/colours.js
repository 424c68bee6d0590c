// Palettes that every kind of colour vision can tell apart.

// Okabe and Ito 2008; yellow and black, which vanish on one of the two grounds, are replaced by a neutral pair.
const HEAD_COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b65a92", "#c98a00", "#3d9bd1", "#6b6b6b", "#8a5a2b"],
  dark: ["#4aa8e0", "#f0803c", "#2fc79a", "#e08fc0", "#e69f00", "#8fd0f5", "#b5b5b5", "#c9986a"],
};

// Lightness rises or falls steadily along each scale, so it is read without hue too.
const SCALES = {
  light: ["#f6f8f8", "#d3e3e8", "#93c0cf", "#4a93b1", "#1d6187", "#123a60", "#0b1a33"],
  dark: ["#171c22", "#1d3450", "#27567a", "#3c7f8d", "#6fab84", "#bcd074", "#fdf3b0"],
};

const OFF_COLOUR = { light: "#b9c0c4", dark: "#4c555c" };
const ROLLOUT_COLOUR = { light: "#5a4fa2", dark: "#b3a8ff" };

function headColour(head) {
  return HEAD_COLOURS[state.theme][head % HEAD_COLOURS.light.length];
}

// A head of the chosen layer that is kept off is grey.
function shownColour(head) {
  return isKeptOff(state.kind, state.layer, head) ? OFF_COLOUR[state.theme] : headColour(head);
}

function rolloutColour() {
  return ROLLOUT_COLOUR[state.theme];
}

// 256 steps [r, g, b] of the sequential scale.
function scaleSteps() {
  const stops = SCALES[state.theme].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return Array.from({ length: 256 }, (_, step) => {
    const position = (step / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(position), stops.length - 2);
    return stops[low].map((value, channel) => Math.round(value + (position - low) * (stops[low + 1][channel] - value)));
  });
}

function scaleColour(share) {
  return `rgb(${scaleSteps()[Math.round(255 * Math.min(1, Math.max(0, share)))].join(",")})`;
}
