// Theme button, live updates on and off, and the key of the search. Pages work without it.
(() => {
  const root = document.documentElement;
  const THEMES = ["system", "light", "dark"];

  function stored(key, value) {
    try {
      if (value === undefined) return localStorage.getItem(key);
      localStorage.setItem(key, value);
    } catch {
      // the browser keeps nothing for this page: the choice holds until the next one
    }
    return null;
  }

  const theme = document.getElementById("theme");
  if (theme) {
    const show = () => {
      theme.querySelector(".now").textContent = root.dataset.theme || "system";
    };
    theme.hidden = false;
    theme.addEventListener("click", () => {
      const next = THEMES[(THEMES.indexOf(root.dataset.theme || "system") + 1) % THEMES.length];
      if (next === "system") delete root.dataset.theme;
      else root.dataset.theme = next;
      stored("pyjms-theme", next);
      show();
    });
    show();
  }

  // On a phone the menu is wider than the page: show which entry is the open page.
  const menu = document.querySelector(".menu");
  const current = menu && menu.querySelector("[aria-current]");
  if (current) {
    menu.scrollLeft = current.offsetLeft - menu.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2;
  }

  const live = document.getElementById("live");
  let isLive = stored("pyjms-live") !== "off";
  if (live && document.querySelector("[data-live]")) {
    const show = () => live.setAttribute("aria-pressed", String(isLive));
    live.hidden = false;
    live.addEventListener("click", () => {
      isLive = !isLive;
      stored("pyjms-live", isLive ? "on" : "off");
      show();
    });
    show();
  }

  // A part of the page is not replaced while somebody uses it: focus and selection would be lost.
  function inUse(part) {
    const focused = document.activeElement;
    if (focused && focused !== part && part.contains(focused) && !focused.matches(".scroll")) return true;
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  document.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.target;
    if (part.matches("[data-live]") && (!isLive || document.hidden || inUse(part))) {
      event.preventDefault();
    }
  });
  let scrolled = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    scrolled = [...event.target.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    [...event.target.querySelectorAll(".scroll")].forEach((each, index) => {
      each.scrollLeft = scrolled[index] || 0;
    });
  });

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const find = document.getElementById("find");
      if (find) {
        event.preventDefault();
        find.focus();
      }
    }
  });
})();
