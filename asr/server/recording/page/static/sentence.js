// Shows a sentence: pinyin above the characters, and the places that were not read as written.

export function element(name, className = "", content = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = content;
  return made;
}

// The characters of a difference, as [first, last + 1]; null where they are not known. Something extra has none of
// its own: it is marked at the character before it.
export function placeOf({ places }, { start, end }) {
  if (!places?.length) return null;
  const last = Math.max(0, Math.min(end, places.length) - 1);
  const first = Math.min(start, last);
  return [places[first][0], places[last][1]];
}

export function showSentence(container, prompt) {
  const characters = [...prompt.text];
  const marks = new Map(); // character -> kind of difference
  for (const difference of prompt.differences ?? []) {
    const [first, end] = placeOf(prompt, difference) ?? [0, 0];
    for (let index = first; index < end; index += 1) marks.set(index, difference.kind);
  }
  const parts = [];
  let unit = null; // characters between which a line is not broken
  characters.forEach((character, index) => {
    const reading = prompt.syllables?.[index];
    const content = marked(reading ? withReading(character, reading) : character, marks.get(index));
    if (/\s/.test(character)) {
      parts.push(content);
      unit = null;
    } else if (unit && joins(characters[index - 1], character)) {
      unit.append(content);
    } else {
      unit = element("span", "unit-of-line");
      unit.append(content);
      parts.push(unit);
    }
  });
  container.replaceChildren(...parts);
  const isRead = Boolean(prompt.syllables?.some(Boolean));
  container.classList.toggle("long", characters.length > (isRead ? 24 : 80));
  container.classList.toggle("read", isRead);
}

// Whether no line may break between two characters: in a word of letters, before and after its punctuation.
function joins(before, character) {
  const [isHan, opens] = [/\p{Script=Han}/u, /[\p{Ps}\p{Pi}]/u];
  if (opens.test(before)) return true;
  if (opens.test(character) || isHan.test(character)) return false;
  return /\p{P}/u.test(character) || !isHan.test(before);
}

function withReading(character, reading) {
  const ruby = element("ruby", "", character);
  ruby.append(element("rt", "", reading));
  return ruby;
}

function marked(content, kind) {
  if (!kind) return content;
  const mark = element("mark", kind);
  mark.append(content);
  return mark;
}
