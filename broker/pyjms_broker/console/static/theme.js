// Applies the chosen theme before anything is drawn. Loaded without defer.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("pyjms-theme");
  } catch {
    // the browser keeps nothing for this page: the system's theme is used
  }
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
  }
})();
