// The language of a page: its words in each language, and the choice between them.

const STORED = "polyphone-language";
let texts = {}; // language -> name -> words
let language = "en";

// Use the words of a page, in the language that was chosen before or that the browser prefers.
export function useTexts(given) {
  texts = given;
  language = stored() ?? preferred();
}

function stored() {
  try {
    const found = localStorage.getItem(STORED);
    return found in texts ? found : null;
  } catch {
    return null; // the browser forbids it
  }
}

function preferred() {
  const known = navigator.languages.map((tag) => tag.slice(0, 2).toLowerCase());
  return known.find((tag) => tag in texts) ?? "en";
}

// The words of a name, such as "record" or "errors.network"; values fill their {places}.
export function text(name, values = {}) {
  const words = name.split(".").reduce((found, part) => found[part], texts[language]);
  return typeof words === "string" ? filled(words, values) : words;
}

export function filled(words, values) {
  return words.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

export function useOtherLanguage() {
  language = language === "en" ? "zh" : "en";
  try {
    localStorage.setItem(STORED, language);
  } catch {
    // it holds until the page is closed
  }
  showTexts();
}

export function showTexts() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-text]")) {
    element.textContent = text(element.dataset.text);
  }
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", text(element.dataset.label));
  }
  const button = document.getElementById("language");
  button.textContent = text("other");
  button.lang = language === "en" ? "zh" : "en";
}
