// Plays a recording from where its spectrogram is clicked, and shows there what is playing.
(() => {
  for (const picture of document.querySelectorAll(".picture")) {
    const audio = picture.closest("article").querySelector("audio");
    if (!audio) continue;
    const cursor = document.createElement("i");
    cursor.className = "cursor";
    picture.append(cursor);
    picture.classList.add("plays");
    const move = () => {
      cursor.style.left = `${(100 * audio.currentTime) / picture.dataset.durationS}%`;
      if (!audio.paused) requestAnimationFrame(move);
    };
    audio.addEventListener("seeked", move);
    audio.addEventListener("play", () => {
      for (const other of document.querySelectorAll("audio")) if (other !== audio) other.pause();
      move();
    });
    picture.addEventListener("click", (event) => {
      const { left, width } = picture.getBoundingClientRect();
      audio.currentTime = ((event.clientX - left) / width) * picture.dataset.durationS;
      audio.play();
    });
  }
})();
