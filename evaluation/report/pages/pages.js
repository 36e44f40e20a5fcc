// Comfort only: every page works without it.
for (const field of document.querySelectorAll("[data-submit]")) {
  const button = field.form.querySelector("button");
  button.hidden = true;
  field.addEventListener("change", () => field.form.requestSubmit());
}
