// Theme button, live updates, selection of rows, completion of names, and the key of the search.
// Pages work without it.
(() => {
  const root = document.documentElement;
  const home = document.querySelector(".brand").getAttribute("href");
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
  const part = document.querySelector("[data-live]");
  let isLive = stored("pyjms-live") !== "off";
  if (live && part) {
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
  function isInUse() {
    const focused = document.activeElement;
    if (focused && focused !== part && part.contains(focused) && !focused.matches(".scroll")) return true;
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  // The server sends the lines that have changed; the others are taken from the last update.
  let lines = [];
  let key = "new";
  async function update() {
    if (!isLive || document.hidden || isInUse()) return;
    const response = await fetch(part.dataset.live, {
      headers: { "X-Live": key, "X-Requested-With": "XMLHttpRequest" },
      signal: AbortSignal.timeout(30000),
    });
    if (response.status === 401) location.reload(); // the session has ended: to the login
    if (response.status !== 200) return;
    const found = await response.json();
    key = found.key;
    lines = found.pieces.flatMap((each) => (typeof each === "string" ? [each] : lines.slice(each[0], each[0] + each[1])));
    show();
  }

  const boxes = () => [...document.querySelectorAll("input[form=bulk]")];

  // Boxes stay checked and scrolled tables where they were; a row that has gone is not selected.
  function show() {
    const scrolled = [...part.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    const checked = new Set(boxes().filter((each) => each.checked).map((each) => each.value));
    part.innerHTML = lines.join("");
    part.querySelectorAll(".scroll").forEach((each, index) => {
      each.scrollLeft = scrolled[index] || 0;
    });
    boxes().forEach((each) => {
      each.checked = checked.has(each.value);
    });
    onSelection();
  }

  if (part) {
    const again = () => setTimeout(() => update().catch(() => {}).finally(again), 1000 * part.dataset.seconds);
    again(); // an update that failed, because the broker is away, is tried again
  }

  function onSelection() {
    const bar = document.getElementById("bulk");
    if (!bar) return;
    const count = boxes().filter((each) => each.checked).length;
    bar.querySelector(".selected").textContent = `${count} selected:`;
    bar.querySelectorAll("button").forEach((each) => {
      each.disabled = count === 0;
    });
    document.querySelectorAll("input.all").forEach((each) => {
      each.hidden = false;
      each.checked = count > 0 && count === boxes().length;
      each.indeterminate = count > 0 && !each.checked;
    });
  }
  document.addEventListener("change", (event) => {
    if (event.target.matches("input.all")) {
      boxes().forEach((each) => {
        each.checked = event.target.checked;
      });
    }
    if (event.target.matches("input.all, input[form=bulk]")) onSelection();
  });
  onSelection();
  addEventListener("pageshow", onSelection); // a browser that goes back restores the boxes

  // Names of queues and topics are completed while they are typed.
  document.querySelectorAll("[data-names]").forEach((input) => {
    const list = document.createElement("datalist");
    list.id = `${input.id}-names`;
    input.after(list);
    input.setAttribute("list", list.id);
    let timer;
    const complete = async () => {
      const kind = document.getElementById("type")?.value || input.dataset.names;
      const response = await fetch(`${home}names?${new URLSearchParams({ kind, q: input.value })}`);
      if (!response.ok) return;
      list.replaceChildren(...(await response.json()).map((name) => new Option(name, name)));
    };
    const soon = () => {
      clearTimeout(timer);
      timer = setTimeout(() => complete().catch(() => {}), 150);
    };
    input.addEventListener("input", soon);
    input.addEventListener("focus", soon);
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
