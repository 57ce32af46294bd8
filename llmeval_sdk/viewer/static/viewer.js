// What a page gains where scripts run: news without reloading, filters that apply themselves,
// ids that copy. Every page works without it.
"use strict";

const body = document.body;
const news = document.querySelector("[data-news]");

// The token has done its work: a cookie stands for it, and addresses get copied into reports.
const here = new URL(location.href);
if (here.searchParams.has("token")) {
  here.searchParams.delete("token");
  history.replaceState(null, "", here);
}

// On a phone the list of pages scrolls: show the one that is open.
const pages = document.querySelector(".top nav");
const open = pages && pages.querySelector("[aria-current]");
if (open) pages.scrollLeft = open.offsetLeft - pages.offsetLeft - pages.clientWidth / 3;

for (const form of document.querySelectorAll("[data-auto]")) {
  form.addEventListener("change", (event) => {
    if (event.target.name === "col" || event.target.matches("[data-more]")) return; // no filter yet
    const half = event.target.matches("[name=evaluator], [name=op]") && !form.elements.value.value;
    if (!half || event.target.matches("[name=evaluator]")) form.requestSubmit();
  });
  form.addEventListener("submit", () => {
    for (const field of form.querySelectorAll("input, select")) {
      if (!field.value || (field.name === "op" && !form.elements.value.value)) field.disabled = true;
    }
  });
}
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("[data-auto] :disabled")) field.disabled = false;
});

for (const id of document.querySelectorAll("[data-copy]")) {
  id.tabIndex = 0;
  id.title = "Copy";
  const copy = () => navigator.clipboard.writeText(id.textContent).then(() => tell("Copied"));
  id.addEventListener("click", copy);
  id.addEventListener("keydown", (event) => event.key === "Enter" && copy());
}

function tell(words, seconds = 3) {
  news.textContent = words;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => (news.textContent = ""), seconds * 1000);
}

async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const rows = document.querySelector("[data-refresh]");
  const fresh = page.querySelector("[data-refresh]");
  if (!rows) {
    if (fresh) location.reload(); // the first trace of an empty store
    return;
  }
  const known = new Set([...rows.children].map((row) => row.dataset.id));
  let count = 0;
  for (const row of fresh?.children ?? []) {
    if (known.has(row.dataset.id)) continue;
    row.classList.add("new");
    count += 1;
  }
  if (!fresh || rows.contains(document.activeElement)) return; // do not take a reader's place away
  rows.replaceChildren(...fresh.children);
  if (count) tell(`${count} new ${count === 1 ? "trace" : "traces"}`);
}

function listen() {
  const events = new EventSource(`${body.dataset.events}?state=${body.dataset.state}`);
  const dot = document.querySelector("[data-live]");
  let waiting = false;
  events.addEventListener("open", () => {
    dot.hidden = false;
    dot.title = "Live: new traces appear by themselves";
  });
  events.addEventListener("change", () => {
    if (waiting) return;
    waiting = true; // one refresh a second and a half at most, however much arrives
    setTimeout(() => {
      waiting = false;
      if (document.visibilityState === "visible") refresh();
    }, 1500);
  });
}

const list = document.querySelector("[data-refresh]") || document.querySelector(".empty");
if (list && "EventSource" in window) listen();

if (document.querySelector("[data-keys]")) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    document.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`)?.click();
  });
}
