// Elements and words. Texts of others (names, reasons) become text nodes, never markup.

export function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  if (text !== "") made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export const byId = (id) => document.getElementById(id);

// Sets it only where it differs, so that a screen reader says what is new and no more.
export function say(id, text) {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
}

export function mebibytes(bytes) {
  if (bytes === null || bytes === undefined) return "-";
  const count = bytes / (1 << 20);
  if (count > 0 && count < 0.01) return "<0.01";
  return count.toLocaleString("en", { maximumFractionDigits: count < 100 ? 2 : 0 });
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.floor(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

// A job's colour: the same for its id and name in every place; dark enough under white text.
export function colour(row) {
  let hash = row.id * 137;
  for (const sign of row.name) hash = (hash * 31 + sign.codePointAt(0)) % 3600;
  return `hsl(${hash % 360} 55% 28%)`;
}

export function label(row) {
  return row ? `${row.id} ${row.name}` : "-";
}
