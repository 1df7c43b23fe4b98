// Live updates of a page. Every page works without this script, except that live parts are not updated.
"use strict";

// After a click on a link or a button, the browser is leaving the page: reloading it would cancel the click. This state
// expires, since the next page might never load.
const LEAVING_MS = 60_000;
let leavesUntil = 0;
addEventListener("beforeunload", () => {
  leavesUntil = Date.now() + LEAVING_MS;
});

// The console can stop and be restarted with the same command. Until the new console has proved its identity
// (session.rs), another user's server might have its port: neither the ticket nor any input is sent there.
const base = new URL(".", document.currentScript.src);
const ALIVE_EVERY_MS = 2_000;
const PATIENCE_MS = 8_000;
const DEAD = "The console has stopped. Start it again with the same command and port, and this page reconnects; otherwise open the link that it prints.";
const OTHER = "This address now belongs to another console, or to a later start of this one. Open the link that it printed.";
let isDead = false;
let typed = false;
const followers = [];
addEventListener("input", () => {
  typed = true;
});

const ask = (options) => fetch("/alive", { ...options, credentials: "omit", signal: AbortSignal.timeout(PATIENCE_MS) });

/** Moves the page to the restarted console. */
async function returnTo({ link, ...renewed }) {
  const url = new URL(link);
  if (url.origin !== location.origin) throw new Error("the link has another origin");
  // The response sets the new cookie.
  await fetch(url, { redirect: "manual", credentials: "same-origin" });
  const here = location.pathname.slice(base.pathname.length) + location.search + location.hash;
  if (!typed) return location.replace(url.pathname + here);
  // Keeps the user's input: only the URLs on the page are replaced.
  for (const name of ["action", "data-check", "data-live", "href"]) {
    for (const element of document.querySelectorAll(`[${name}^="${base.pathname}"]`)) {
      element.setAttribute(name, url.pathname + element.getAttribute(name).slice(base.pathname.length));
    }
  }
  history.replaceState(null, "", url.pathname + here);
  base.pathname = url.pathname;
  Object.assign(session, renewed);
}

function say(words) {
  let notice = document.getElementById("dead");
  if (!words) return notice?.remove();
  if (!notice) {
    notice = document.createElement("p");
    notice.id = "dead";
    notice.className = "warning";
    notice.setAttribute("role", "alert");
    document.body.append(notice);
  }
  if (notice.textContent !== words) notice.textContent = words;
}

/** Returns true if the page's console is reachable: the one that rendered the page, or a restarted one it moved to. */
let asking = null;
const isAlive = () => (asking ??= checkConsole().finally(() => (asking = null)));

async function checkConsole() {
  let words = DEAD;
  try {
    const { id, proof } = await (await ask()).json();
    if (id !== session.id) {
      words = OTHER;
      if (proof !== session.proof) throw new Error("another console has this address");
      const answer = await ask({ method: "POST", body: session.ticket });
      if (!answer.ok) throw new Error("the console rejected this page's ticket");
      await returnTo(await answer.json());
    }
    isDead = false;
    say("");
  } catch (error) {
    isDead = true;
    say(error.name === "TimeoutError" ? "The console is not responding at the moment." : words);
  }
  for (const button of document.querySelectorAll("button")) {
    if (isDead) button.setAttribute("aria-disabled", "true");
    else if (!button.form?.dataset.sent) button.removeAttribute("aria-disabled");
  }
  for (const follow of followers) follow();
  return !isDead;
}

const watch = async () => {
  if (!document.hidden && Date.now() >= leavesUntil) await isAlive();
  setTimeout(watch, ALIVE_EVERY_MS);
};
setTimeout(watch, ALIVE_EVERY_MS);

// Stays on this page if a link or a form would open the browser's error page.
addEventListener("click", (event) => {
  if (isDead && event.target.closest?.('a[href]:not([href^="#"])')) event.preventDefault();
});
addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  if (form.dataset.sent === "now") return;
  event.preventDefault();
  // A second click during the check does nothing.
  if (form.dataset.sent) return;
  form.dataset.sent = "asks";
  if (!(await isAlive())) return void delete form.dataset.sent;
  form.dataset.sent = "now";
  form.requestSubmit(submitter);
  form.dataset.sent = "sent";
});

// Updates a part whenever it changes; the end of the stream reloads the page. Streams are open only while the page is
// visible: browsers limit the connections per host, and a hidden tab should not query AWS.
for (const part of document.querySelectorAll("[data-live]")) {
  let source = null;
  const follow = () => {
    if (source && !isDead && !document.hidden && source.readyState !== EventSource.CLOSED) return;
    source?.close();
    source = null;
    if (document.hidden || isDead) return;
    source = new EventSource(part.dataset.live);
    source.addEventListener("part", (event) => {
      // Keeps open details open, and keeps the focus.
      const opened = [...part.querySelectorAll("details[open] > summary")].map(({ textContent }) => textContent);
      const focused = [...part.querySelectorAll("a, button, summary")].indexOf(document.activeElement);
      part.innerHTML = event.data;
      for (const summary of part.querySelectorAll("details > summary")) {
        if (opened.includes(summary.textContent)) summary.parentElement.open = true;
      }
      if (focused >= 0) part.querySelectorAll("a, button, summary")[focused]?.focus({ preventScroll: true });
    });
    source.addEventListener("over", () => {
      source.close();
      // Keeps the user's input: only the user reloads the page.
      if (typed || Date.now() < leavesUntil) setTimeout(follow, LEAVING_MS);
      else location.reload();
    });
    source.addEventListener("error", () => {
      part.classList.add("stale");
      void isAlive();
    });
    source.addEventListener("open", () => part.classList.remove("stale"));
  };
  document.addEventListener("visibilitychange", follow);
  followers.push(follow);
  follow();
}

// A second click has no effect anyway, but users should see that the first click was registered.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", () => {
    for (const button of form.querySelectorAll("button")) {
      button.setAttribute("aria-disabled", "true");
    }
  });
}
addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
  for (const button of document.querySelectorAll("button[aria-disabled]")) {
    button.removeAttribute("aria-disabled");
  }
});

// Shows the errors of an edited body while the user types.
for (const body of document.querySelectorAll("textarea[data-check]")) {
  const form = body.form;
  const verdict = document.getElementById(body.getAttribute("aria-describedby"));
  let waits = 0;
  let asked = 0;
  const check = async () => {
    if (isDead) return;
    const number = ++asked;
    const answer = await fetch(body.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    const words = await answer.text();
    // Discards the response to an earlier version of the text.
    if (number === asked) verdict.innerHTML = answer.ok ? words : `<p class="warning">${answer.status}: reload this page.</p>`;
  };
  form.addEventListener("input", () => {
    clearTimeout(waits);
    waits = setTimeout(() => check().catch(() => {
      verdict.textContent = "The console is not responding: is it still running?";
    }), 300);
  });
}
