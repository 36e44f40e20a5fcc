// Comfort only: every page works without it.
for (const field of document.querySelectorAll("[data-submit]")) {
  const button = field.form.querySelector("button");
  button.hidden = true;
  field.addEventListener("change", () => field.form.requestSubmit());
}
// Drafts are read one after another: a key where no field has the focus.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const button = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (button) button.click();
});
