// Loads the page of a training again until it is over; what the reader has unfolded stays open.
(() => {
  const silent = document.getElementById("silent");
  const { refreshS, writtenS, patienceS } = silent.dataset;
  const folds = () => [...document.querySelectorAll("details")];
  const name = `polyphone-open ${location.pathname}`;
  addEventListener("DOMContentLoaded", () => {
    const open = JSON.parse(sessionStorage.getItem(name) ?? "[]");
    folds().forEach((fold, index) => { fold.open = open.includes(index); });
  });
  setInterval(() => {
    if (Number(patienceS) && Date.now() / 1000 - writtenS > patienceS) {
      silent.hidden = false;
      return;
    }
    sessionStorage.setItem(name, JSON.stringify(folds().flatMap((fold, index) => fold.open ? [index] : [])));
    location.reload();
  }, 1000 * refreshS);
})();
