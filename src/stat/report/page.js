
const find = document.getElementById("find"), figures = [...document.querySelectorAll("figure")];
find.hidden = false;
find.addEventListener("input", () => {
  const text = find.value.toLowerCase();
  for (const figure of figures) {
    figure.hidden = !figure.dataset.key.toLowerCase().includes(text);
    const folded = figure.closest("details");
    if (text && !figure.hidden && folded) folded.open = true;
  }
});
