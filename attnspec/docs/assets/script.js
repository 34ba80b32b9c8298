// The theme, before anything is painted, and the search. Works from a file: nothing is fetched.
"use strict";

const THEMES = ["auto", "light", "dark"];
const MOST = 12;

function storedTheme() {
  try {
    const theme = localStorage.getItem("attnspec-theme");
    return THEMES.includes(theme) ? theme : "auto";
  } catch {
    return "auto"; // a browser may keep nothing for pages from files
  }
}

function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function nextTheme(button) {
  const theme = THEMES[(THEMES.indexOf(button.dataset.theme) + 1) % THEMES.length];
  try {
    localStorage.setItem("attnspec-theme", theme);
  } catch {
    // it lasts for this page then
  }
  nameTheme(button, theme);
  showTheme(theme);
}

function nameTheme(button, theme) {
  button.dataset.theme = theme;
  button.textContent = `Theme: ${theme}`;
}

// Entries that have every word, those first whose id has more of them; whole ids before all.
function matches(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const scored = [];
  for (const entry of window.attnspecIndex) {
    const id = entry.id.toLowerCase();
    const text = `${id} ${entry.kind} ${entry.text.toLowerCase()}`;
    if (!words.every((word) => text.includes(word))) continue;
    let score = words.filter((word) => id.includes(word)).length;
    if (entry.text.toLowerCase().split(" ", 1)[0] === words[0]) score += 50;
    if (id === words[0]) score += 100;
    if (entry.kind === "claim") score += 0.5;
    scored.push([score, entry]);
  }
  return scored.sort((a, b) => b[0] - a[0]).map(([, entry]) => entry);
}

function item(entry, place) {
  const li = document.createElement("li");
  li.id = `found-${place}`;
  li.setAttribute("role", "option");
  const link = document.createElement("a");
  link.href = entry.url;
  link.tabIndex = -1;
  const kind = document.createElement("span");
  kind.className = "kind";
  kind.textContent = ` ${entry.kind}`;
  const text = document.createElement("span");
  text.className = "text";
  text.textContent = entry.text;
  for (const part of entry.id.split(/(?<=[._])/)) link.append(part, document.createElement("wbr"));
  link.append(kind, text);
  li.append(link);
  return li;
}

function startSearch(input, list, count) {
  let chosen = -1;

  const choose = (place) => {
    const items = [...list.children];
    if (!items.length) return;
    chosen = (place + items.length) % items.length;
    items.forEach((li, i) => li.setAttribute("aria-selected", String(i === chosen)));
    input.setAttribute("aria-activedescendant", items[chosen].id);
    items[chosen].scrollIntoView({ block: "nearest" });
  };
  const close = () => {
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const find = () => {
    const found = matches(input.value);
    list.replaceChildren(...found.slice(0, MOST).map(item));
    chosen = -1;
    input.removeAttribute("aria-activedescendant");
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    const more = found.length > MOST ? `, the first ${MOST} are listed` : "";
    count.textContent = input.value.trim() ? `${found.length} found${more}` : "";
  };

  // the list of all there is comes when somebody looks for something
  let wanted = false;
  const load = () => {
    if (wanted) return;
    wanted = true;
    const script = document.createElement("script");
    script.src = "search-index.js";
    script.onload = find;
    document.head.append(script);
  };
  input.addEventListener("focus", load);
  input.addEventListener("input", () => (window.attnspecIndex ? find() : load()));
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen < 0 ? -1 : chosen - 1);
    else if (event.key === "Enter" && list.children.length) {
      list.children[Math.max(chosen, 0)].querySelector("a").click();
      close();
    } else if (event.key === "Escape") {
      input.value = "";
      close();
      return;
    } else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search")) close();
  });
  list.addEventListener("click", close);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    input.focus();
  });
}

// A link to something in a closed part of the page opens that part.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let part = target && target.closest("details");
  while (part) {
    part.open = true;
    part = part.parentElement.closest("details");
  }
  if (target) target.scrollIntoView();
}

// A formula that is wider than its place scrolls, so the keyboard must get there.
function reachFormulas() {
  for (const node of document.querySelectorAll(".formula, .equations")) {
    if (node.scrollWidth > node.clientWidth + 1) node.tabIndex = 0;
    else node.removeAttribute("tabindex");
  }
}

showTheme(storedTheme());
document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  nameTheme(button, storedTheme());
  button.hidden = false;
  button.addEventListener("click", () => nextTheme(button));
  startSearch(
    document.getElementById("search"),
    document.getElementById("found"),
    document.getElementById("found-count"),
  );
  window.addEventListener("hashchange", openTarget);
  if (location.hash) openTarget();
  reachFormulas();
  window.addEventListener("resize", reachFormulas);
  document.addEventListener("toggle", reachFormulas, true);
});
