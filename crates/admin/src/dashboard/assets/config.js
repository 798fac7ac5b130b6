// Checks and applies the text of a configuration, and shows every error in its place.

const editor = document.querySelector("form[data-config]");

function element(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

// Numbers the lines, and marks those with findings.
function number(diagnostics) {
  const lines = editor.querySelector(".lines");
  const count = editor.elements.text.value.split("\n").length;
  const kinds = new Map(diagnostics.map(({ line, severity }) => [line, severity === "error" ? "bad" : "warn"]));
  lines.replaceChildren(
    ...Array.from({ length: count }, (_, at) => element("span", kinds.get(at + 1) || "", `${at + 1}\n`)),
  );
  lines.scrollTop = editor.elements.text.scrollTop;
}

// Selects a place in the text.
function select(line, col) {
  const { text } = editor.elements;
  const before = text.value.split("\n").slice(0, line - 1);
  const start = before.reduce((sum, one) => sum + one.length + 1, 0);
  const end = text.value.indexOf("\n", start);
  text.focus();
  text.setSelectionRange(start + col - 1, end < 0 ? text.value.length : end);
  text.scrollTop = ((line - 3) * text.scrollHeight) / text.value.split("\n").length;
}

function finding({ code, severity, message, file, line, col, help }) {
  const item = element("li", severity === "error" ? "bad" : "warn", "");
  if (line) {
    const place = element("button", "place", `line ${line}`);
    place.type = "button";
    place.addEventListener("click", () => select(line, col));
    item.append(place, " ");
  } else {
    item.append(`${file}: `);
  }
  item.append(`${severity} ${code}: ${message}`);
  if (help) item.append(element("span", "help", help));
  return item;
}

function report(isGood, title, changes, diagnostics) {
  const outcome = document.getElementById("outcome");
  outcome.replaceChildren(element("p", isGood ? "good" : "bad", title));
  const list = (items) => {
    const made = document.createElement("ol");
    made.append(...items);
    if (items.length) outcome.append(made);
  };
  list(diagnostics.map(finding));
  list(changes.map((change) => element("li", "", change)));
  number(diagnostics);
}

async function propose(button) {
  const isCheck = button.dataset.wish === "check";
  const headers = { accept: "application/json", "content-type": "application/toml", "if-match": editor.dataset.match };
  const path = `${location.origin}/v1/config${isCheck ? "?dry_run=true" : ""}`;
  let response;
  let answer;
  try {
    response = await fetch(path, { method: "POST", headers, body: editor.elements.text.value });
    answer = await response.json();
  } catch (error) {
    return report(false, `Not done: ${error.message}`, [], []);
  }
  const diagnostics = answer.diagnostics || [];
  if (!response.ok) {
    return report(false, diagnostics.length ? "The configuration is wrong; nothing was changed." : `Not done: ${answer.detail}`, [], diagnostics);
  }
  if (isCheck) {
    return report(true, answer.changes.length ? "Valid. It would change:" : "Valid. It changes nothing.", answer.changes, diagnostics);
  }
  sessionStorage.setItem("applied", `Done: ${[answer.text, ...answer.changes].join("\n")}`);
  return location.reload();
}

if (editor) {
  const { text } = editor.elements;
  number([]);
  text.addEventListener("input", () => number([]));
  text.addEventListener("scroll", () => {
    editor.querySelector(".lines").scrollTop = text.scrollTop;
  });
  new ResizeObserver(() => {
    editor.querySelector(".lines").style.height = `${text.offsetHeight}px`;
  }).observe(text);
  editor.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-wish]");
    if (!button || !isMeant(button)) return;
    propose(button);
  });
  // The outcome of a change, after which the page was loaded again.
  const said = sessionStorage.getItem("applied");
  if (said) say(said);
  sessionStorage.removeItem("applied");
}
