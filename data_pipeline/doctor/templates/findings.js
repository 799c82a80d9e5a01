// Filters, searches, sorts and plays the findings of the doctor's page; without JavaScript all of them are shown.
(() => {
  const controls = document.getElementById("controls");
  const search = document.getElementById("search");
  const order = document.getElementById("order");
  const shown = document.getElementById("shown");
  const severities = [...controls.querySelectorAll("input[name=severity]")];
  const sections = [...document.querySelectorAll("[data-severity]")];
  const cards = [...document.querySelectorAll("article[data-title]")];
  const titleOf = (card) => card.querySelector("h3 span").textContent;
  const folded = (text) => text.normalize("NFKC").toLowerCase();
  const findings = cards.flatMap((card) =>
    [...card.querySelectorAll(".finding, tbody tr")].map((element) => ({
      // when it is asked for: the page may be shown in another language since
      element,
      card,
      text: () =>
        folded([card.dataset.title, titleOf(card), card.dataset.code, element.textContent].join(" ")),
    })));
  const details = new Map(cards.map((card) => [card, card.querySelector("details")]));
  const openedHere = new Set();

  const filter = () => {
    const words = folded(search.value).split(/\s+/).filter(Boolean);
    const wanted = new Set(severities.filter((box) => box.checked).map((box) => box.value));
    const counts = new Map(cards.map((card) => [card, 0]));
    let number = 0;
    for (const { element, card, text } of findings) {
      const searched = words.length ? text() : "";
      const fits = words.every((word) => searched.includes(word));
      element.hidden = !fits;
      if (!fits) continue;
      counts.set(card, counts.get(card) + 1);
      if (!wanted.has(card.closest("[data-severity]").dataset.severity)) continue;
      number += 1;
    }
    for (const [card, count] of counts) {
      card.hidden = !count;
      const list = details.get(card);
      if (!list) continue;
      const found = words.length && list.querySelector("tbody tr:not([hidden])");
      if (found && !list.open) {
        list.open = true;
        openedHere.add(list);
      } else if (!found && openedHere.delete(list)) {
        list.open = false;
      }
      list.hidden = Boolean(words.length) && !found;
    }
    for (const section of sections) {
      const some = section.querySelector("article[data-title]:not([hidden])");
      section.hidden = !some || !wanted.has(section.dataset.severity);
    }
    const all = number === findings.length;
    shown.textContent = all ? "" : `${number.toLocaleString("en")} / ${findings.length.toLocaleString("en")}`;
  };

  const comparisons = {
    given: (a, b) => a.dataset.place - b.dataset.place,
    number: (a, b) => b.dataset.total - a.dataset.total || a.dataset.place - b.dataset.place,
    title: (a, b) => titleOf(a).localeCompare(titleOf(b)),
  };
  const sort = () => {
    for (const section of sections) {
      const parent = section.querySelector(".findings");
      parent.append(...[...parent.children].sort(comparisons[order.value]));
    }
  };

  const cellText = (row, column) => row.cells[column].textContent;
  const sortRows = (table, heading, column) => {
    const ascending = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const sign = ascending ? 1 : -1;
    const rows = [...table.tBodies[0].rows].sort((a, b) =>
      sign * cellText(a, column).localeCompare(cellText(b, column), undefined, { numeric: true }));
    table.tBodies[0].append(...rows);
  };
  for (const card of cards) {
    for (const table of card.querySelectorAll("table")) {
      [...table.tHead.rows[0].cells].forEach((heading, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...heading.childNodes);
        button.addEventListener("click", () => sortRows(table, heading, column));
        heading.append(button);
      });
    }
  }

  for (const button of document.querySelectorAll("button.play")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const player = document.createElement("audio");
      Object.assign(player, { controls: true, autoplay: true, src: button.dataset.address });
      button.parentElement.after(player);
      button.remove();
      player.focus();
    });
  }

  search.addEventListener("input", filter);
  for (const box of severities) box.addEventListener("change", filter);
  order.addEventListener("change", sort);
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("reset", () => setTimeout(() => { filter(); sort(); }));
  controls.hidden = false;
  filter();
  sort();
})();
