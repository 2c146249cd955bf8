// What the page does beyond plain HTML: the model list, links without a reload, copying. The rest is on the server.
import Combobox from "./vendor/combobox-nav.js";

const { htmx, Idiomorph } = window;
const SWAP = { target: "#ask", select: "#ask", swap: "morph:outerHTML" };
const MOST_COMPARED = 4;

// --- new answers are woven into the page: what is being typed, opened or scrolled stays as it is ---------------------

Idiomorph.defaults.ignoreActiveValue = true;
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => {
  if (node.tagName === "DETAILS" && name === "open") return false;
  if (node.id === "model" && (name === "role" || name.startsWith("aria-"))) return name === "aria-invalid" || name === "aria-describedby";
  return !(node.hasAttribute?.("data-copy") && name === "hidden");
};
Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) => {
  if (old.id === "methods" && fresh.id === "methods") {
    if (old.dataset.from !== fresh.dataset.from) byMethod(old, fresh.dataset.from);
    return false;
  }
  return old.id !== "model-list";
};

document.addEventListener("htmx:configRequest", ({ detail }) => {
  const given = detail.parameters;
  for (const name of Object.keys(given)) if (given[name] === "") delete given[name];
  for (const name of ["cloud", "market"]) {
    // all ticked is the same as none named
    if (document.querySelectorAll(`input[name=${name}]:not(:checked)`).length === 0) delete given[name];
  }
});
document.addEventListener("htmx:afterSettle", dress);
// what is asked already is overtaken by the first new key, not only by the next question
document.addEventListener("input", ({ target }) => { if (target.form?.id === "ask") htmx.trigger(target.form, "htmx:abort"); });

// --- what went wrong on the way; the next answer takes it away ---------------------------------------------------------

function trouble(words) {
  const box = document.getElementById("trouble");
  box.querySelector("p").textContent = `${words} What stands below answers the request before.`;
  box.hidden = false;
}

document.addEventListener("htmx:responseError", ({ detail }) => {
  let why = "";
  try {
    why = `: ${JSON.parse(detail.xhr.responseText).detail}`;
  } catch {
    // not one of our own problem documents
  }
  trouble(`The server could not answer (${detail.xhr.status})${why}.`);
});
document.addEventListener("htmx:sendError", () => trouble("The server cannot be reached."));
document.addEventListener("htmx:timeout", () => trouble("The server did not answer in time."));

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("#ask a");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const href = link.getAttribute("href") ?? "";
  if (link.hasAttribute("data-copy-link")) {
    event.preventDefault();
    copy(location.href, link);
  } else if (/^\/?\?/.test(href)) {
    event.preventDefault();
    const address = `/${href.replace(/^\//, "")}`;
    htmx.ajax("GET", address, SWAP).then(() => history.replaceState(null, "", address));
  }
});

// --- models by type-ahead ---------------------------------------------------------------------------------------

const input = document.getElementById("model");
const list = document.getElementById("model-list");
const combobox = new Combobox(input, list, { tabInsertsSuggestions: false });
let asked = null;
let wait = 0;

function closeList() {
  clearTimeout(wait);
  asked?.abort();
  if (list.hidden) return;
  list.hidden = true;
  combobox.stop();
}

async function suggest() {
  const text = input.value.trim().split("/").pop();
  asked?.abort();
  if (!text) return closeList();
  asked = new AbortController();
  const pattern = `*${text.replace(/[^\p{L}\p{N}.]+/gu, "*")}*`;
  let found;
  try {
    const answer = await fetch(`/v1/models?limit=8&name=${encodeURIComponent(pattern)}`, { signal: asked.signal });
    found = (await answer.json()).models ?? [];
  } catch {
    return;
  }
  if (!found.length || document.activeElement !== input || (found.length === 1 && found[0].name === input.value)) return closeList();
  list.replaceChildren(
    ...found.map((model, index) => {
      const option = document.createElement("li");
      const size = document.createElement("small");
      option.id = `model-option-${index}`;
      option.setAttribute("role", "option");
      option.dataset.name = model.name;
      option.append(model.name);
      if (model.params_m) size.textContent = ` ${model.params_m >= 1000 ? `${(model.params_m / 1000).toPrecision(3)} B` : `${model.params_m.toPrecision(3)} M`}`;
      option.append(size);
      return option;
    }),
  );
  if (list.hidden) {
    list.hidden = false;
    combobox.start();
  }
}

input.addEventListener("input", () => {
  clearTimeout(wait);
  wait = setTimeout(suggest, 120);
});
input.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !list.hidden) {
    event.preventDefault();
    closeList();
  }
});
input.addEventListener("blur", () => setTimeout(closeList, 150));
list.addEventListener("mousedown", (event) => event.preventDefault());
list.addEventListener("combobox-commit", ({ target }) => {
  input.value = target.dataset.name;
  closeList();
  input.form.requestSubmit();
});

// --- the other methods, asked for once the answer is there -----------------------------------------------------------

const PAUSE = 600; // so that nothing is worked out for an answer that is being changed
let others = null;
let later = 0;

function byMethod(box, from) {
  box.dataset.from = box.dataset.asked = from;
  others?.abort();
  clearTimeout(later);
  later = setTimeout(fetchMethods, PAUSE, box, from);
}

async function fetchMethods(box, from) {
  others = new AbortController();
  try {
    const text = await (await fetch(from, { signal: others.signal })).text();
    const table = new DOMParser().parseFromString(text, "text/html").getElementById("by-method");
    if (table && box.dataset.from === from) box.replaceChildren(...table.childNodes);
  } catch {
    // a newer question took its place
  }
}

// --- a pasted YAML fills the form -----------------------------------------------------------------------------------

document.getElementById("config").addEventListener("paste", ({ target }) => {
  setTimeout(() => htmx.ajax("GET", `/?${new URLSearchParams([...new FormData(target.form), ["read", "1"]])}`, SWAP).then(() => {
    input.focus();
    history.replaceState(null, "", document.getElementById("here").getAttribute("href"));
  }));
});

// --- copying, comparing ---------------------------------------------------------------------------------------------

async function copy(text, button) {
  await navigator.clipboard.writeText(text);
  const before = button.textContent;
  button.textContent = "Copied";
  document.getElementById("live").textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-copy]");
  if (button) copy(button.previousElementSibling.textContent, button);
});

function dress() {
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
  for (const code of document.querySelectorAll(".snippet code")) {
    code.textContent = code.textContent.replaceAll("http://127.0.0.1:8000", location.origin);
  }
  const methods = document.getElementById("methods");
  if (methods && methods.dataset.asked !== methods.dataset.from) byMethod(methods, methods.dataset.from);
  const boxes = [...document.querySelectorAll("input[name=compare]")];
  const full = boxes.filter((box) => box.checked).length >= MOST_COMPARED;
  for (const box of boxes) box.disabled = full && !box.checked;
}

document.documentElement.classList.add("js");
dress();
