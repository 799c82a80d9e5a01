// Shows the page in English or in Chinese: the table in `words` has the Chinese of each English text.
(() => {
  const words = JSON.parse(document.getElementById("words").textContent);
  const verbatim = "[translate=no], script, style, pre";
  const attributes = ["title", "aria-label", "alt", "placeholder"];
  const english = new WeakMap(); // of texts and attributes that were translated
  const root = document.documentElement;
  let language = root.dataset.language;
  try {
    language = localStorage.getItem("polyphone-language") ?? language;
  } catch {
    // the browser forbids it
  }

  const translate = (node) => {
    const original = english.get(node) ?? node.nodeValue;
    const text = original.trim();
    const other = words[text.replace(/\s+/g, " ")];
    if (!other) return;
    english.set(node, original);
    node.nodeValue = language === "zh" ? original.replace(text, () => other) : original;
  };
  const translateAll = (top) => {
    if (top.parentElement?.closest(verbatim)) return;
    const accept = (node) =>
      node.nodeType === 1 && node.matches(verbatim) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT;
    const walker = document.createTreeWalker(top, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, accept);
    if (accept(top) === NodeFilter.FILTER_REJECT) return;
    for (let node = top; node; node = walker.nextNode()) {
      if (node.nodeType === 3) translate(node);
      else attributes.map((name) => node.getAttributeNode?.(name)).filter(Boolean).forEach(translate);
    }
  };
  const show = () => {
    root.lang = language === "zh" ? "zh-CN" : "en";
    const button = document.getElementById("language");
    if (!button) return;
    button.hidden = false;
    button.textContent = language === "zh" ? "English" : "中文";
    button.lang = language === "zh" ? "en" : "zh-CN";
  };

  // a page of some megabytes is shown while it is read
  new MutationObserver((records) => {
    if (language === "zh") for (const record of records) record.addedNodes.forEach(translateAll);
  }).observe(root, { childList: true, subtree: true });
  if (language === "zh") translateAll(root);
  show();
  addEventListener("DOMContentLoaded", () => {
    if (language === "zh") translateAll(root); // a text may have come in two parts
    show();
    document.getElementById("language").addEventListener("click", () => {
      language = language === "zh" ? "en" : "zh";
      try {
        localStorage.setItem("polyphone-language", language);
      } catch {
        // it holds until the page is closed
      }
      translateAll(root);
      show();
    });
  });
})();
