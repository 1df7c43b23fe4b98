// What moves on a page. Every page works without it, except that live parts stand still.
"use strict";

// Whoever has clicked on a link or a button is about to leave: loading the page again would take the click back. A page that
// never comes begins like that, too, so it ends by itself.
const LEAVING_MS = 60_000;
let leavesUntil = 0;
addEventListener("beforeunload", () => {
  leavesUntil = Date.now() + LEAVING_MS;
});

// The console's program may die, and start again with the same command. Until it has proved itself (session.rs), another
// user's server may have its port: the ticket and what was typed do not go there.
const base = new URL(".", document.currentScript.src);
const ALIVE_EVERY_MS = 2_000;
const PATIENCE_MS = 8_000;
const DEAD = "The console has stopped. Start it again with the same command and port, and this page reconnects; otherwise open the link that it prints.";
const OTHER = "Another console, or a later start of this one, has this address. Open the link that it printed.";
let isDead = false;
let typed = false;
const followers = [];
addEventListener("input", () => {
  typed = true;
});

const ask = (options) => fetch("/alive", { ...options, credentials: "omit", signal: AbortSignal.timeout(PATIENCE_MS) });

/** Takes the page over to the console that has started again. */
async function returnTo({ link, ...renewed }) {
  const url = new URL(link);
  if (url.origin !== location.origin) throw new Error("it is elsewhere");
  // Its answer has the new cookie.
  await fetch(url, { redirect: "manual", credentials: "same-origin" });
  const here = location.pathname.slice(base.pathname.length) + location.search + location.hash;
  if (!typed) return location.replace(url.pathname + here);
  // What was typed stays: the page's addresses become the new ones.
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

/** Returns true if the console is there: the one that made this page, or one that this page has gone over to. */
let asking = null;
const isAlive = () => (asking ??= look().finally(() => (asking = null)));

async function look() {
  let words = DEAD;
  try {
    const { id, proof } = await (await ask()).json();
    if (id !== session.id) {
      words = OTHER;
      if (proof !== session.proof) throw new Error("it is another one");
      const answer = await ask({ method: "POST", body: session.ticket });
      if (!answer.ok) throw new Error("it does not know this page");
      await returnTo(await answer.json());
    }
    isDead = false;
    say("");
  } catch (error) {
    isDead = true;
    say(error.name === "TimeoutError" ? "The console does not answer at the moment." : words);
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

// Where a link or a form would lead to the browser's error page, this page stays as it is.
addEventListener("click", (event) => {
  if (isDead && event.target.closest?.('a[href]:not([href^="#"])')) event.preventDefault();
});
addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  if (form.dataset.sent === "now") return;
  event.preventDefault();
  // A second click while the console is asked does nothing.
  if (form.dataset.sent) return;
  form.dataset.sent = "asks";
  if (!(await isAlive())) return void delete form.dataset.sent;
  form.dataset.sent = "now";
  form.requestSubmit(submitter);
  form.dataset.sent = "sent";
});

// A part that is announced whenever it changes; what comes after it is another page. Only while it can be seen: browsers
// keep few connections to one place, and nobody should ask AWS for a tab that nobody looks at.
for (const part of document.querySelectorAll("[data-live]")) {
  let source = null;
  const follow = () => {
    if (source && !isDead && !document.hidden && source.readyState !== EventSource.CLOSED) return;
    source?.close();
    source = null;
    if (document.hidden || isDead) return;
    source = new EventSource(part.dataset.live);
    source.addEventListener("part", (event) => {
      // What is open stays open, and the focus stays where it is.
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
      // What was typed stays: the page is loaded again by a click.
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

// A second click would do nothing either, but people should see that the first one counts.
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

// What is wrong with an edited body, while one types.
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
    // An answer to what was written before is no answer.
    if (number === asked) verdict.innerHTML = answer.ok ? words : `<p class="warning">${answer.status}: load this page again.</p>`;
  };
  form.addEventListener("input", () => {
    clearTimeout(waits);
    waits = setTimeout(() => check().catch(() => {
      verdict.textContent = "The console does not answer: is it still running?";
    }), 300);
  });
}
