// Copies text.

export async function copyText(words) {
  try {
    await navigator.clipboard.writeText(words);
  } catch {
    copyBySelection(words);
  }
}

// Pages that came by http from another machine have no clipboard.
function copyBySelection(words) {
  const area = document.createElement("textarea");
  area.value = words;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
