// Makes pages follow what happens, and buttons change things. Without it pages are read and loaded again.
"use strict";

const said = document.getElementById("said");

function say(text, isBad) {
  said.textContent = text;
  said.className = isBad ? "bad" : "";
}

// Makes `old` like `now`, touching only what differs: selections, focus and open details stay.
function morph(old, now) {
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName) return old.replaceWith(now);
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  // A button that was clicked once and a field that is typed into stay as they are.
  if (old.dataset.asked || (old === document.activeElement && old.matches("input, select, textarea"))) return;
  for (const { name } of [...old.attributes]) {
    if (!now.hasAttribute(name) && !(name === "open" && old.matches("details"))) old.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const [are, shall] = [[...old.childNodes], [...now.childNodes]];
  shall.forEach((child, at) => (at < are.length ? morph(are[at], child) : old.append(child)));
  are.slice(shall.length).forEach((child) => child.remove());
}

let following;

function follow() {
  following = new EventSource(location.origin + location.pathname + location.search);
  following.addEventListener("content", (event) => {
    const page = document.createElement("template");
    page.innerHTML = `<main>${event.data}</main>`;
    show(page.content.firstChild);
  });
  following.addEventListener("open", () => document.body.classList.remove("lost"));
  following.addEventListener("error", () => document.body.classList.add("lost"));
}

// The content's own element keeps its attributes.
function show(now) {
  const main = document.getElementById("content");
  for (const { name, value } of main.attributes) now.setAttribute(name, value);
  morph(main, now);
  point();
}

if (document.body.hasAttribute("data-live")) {
  follow();
  // A hidden page asks for nothing.
  document.addEventListener("visibilitychange", () => {
    following.close();
    if (!document.hidden) follow();
  });
}

async function change(method, path, body, match) {
  const headers = { accept: "application/json" };
  if (body) headers["content-type"] = "application/json";
  if (match) headers["if-match"] = match;
  let answer;
  try {
    answer = await fetch(location.origin + path, { method, headers, body });
  } catch (error) {
    say(`Not done: ${error.message}`, true);
    return undefined;
  }
  const text = await answer.text();
  if (answer.ok) return text;
  let why = text;
  try {
    why = JSON.parse(text).detail;
  } catch {
    // The response is not a problem document: its text has the reason.
  }
  say(`Not done: ${why}`, true);
  return undefined;
}

function forget(button) {
  if (button.dataset.asked !== undefined) button.textContent = button.dataset.asked;
  delete button.dataset.asked;
}

// The first click asks, the second one within five seconds does it.
function isMeant(button) {
  const { asks, asked } = button.dataset;
  const isAnswer = asked !== undefined;
  if (asks && !isAnswer) {
    button.dataset.asked = button.textContent;
    button.textContent = `Really ${asks}`;
    setTimeout(forget, 5000, button);
  }
  if (isAnswer) forget(button);
  return !asks || isAnswer;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-path]");
  if (!button || !isMeant(button)) return;
  const { method, path, body, match, again } = button.dataset;
  if ((await change(method, path, body, match)) === undefined) return;
  say(`Done: ${button.textContent.trim()}`);
  // A page that does not follow is loaded again.
  if (again !== undefined) location.reload();
});

// Browsers give the clipboard to pages of https and of this host only: elsewhere the text is selected.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(text.textContent);
    say("Copied");
  } catch {
    getSelection().selectAllChildren(text);
    text.focus();
    say("Selected: press Ctrl+C to copy it");
  }
});

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-patch]");
  if (!form) return;
  event.preventDefault();
  const weight = Number(form.elements.weight.value);
  const { patch, match } = form.dataset;
  if ((await change("PATCH", patch, JSON.stringify({ weight }), match)) !== undefined) say(`Done: weight ${weight}`);
});

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-purge]");
  if (!form) return;
  event.preventDefault();
  const { kind, value, soft } = form.elements;
  const button = event.submitter ?? form.querySelector("button");
  if (!isMeant(button)) return;
  const order = { [kind.value]: kind.value === "all" ? true : value.value.trim(), soft: soft.checked };
  const answer = await change("POST", form.dataset.purge, JSON.stringify(order));
  if (answer === undefined) return;
  const { purged, objects } = JSON.parse(answer);
  say(`Done: ${purged}: ${objects} ${order.soft ? "made stale" : "removed"}`);
});
