// What moves on a page. Every page works without it, except that live parts stand still.
"use strict";

// Whoever has clicked on a link or a button is about to leave: loading the page again would take the click back. A page that
// never comes begins like that, too, so it ends by itself.
const LEAVING_MS = 60_000;
let leavesUntil = 0;
addEventListener("beforeunload", () => {
  leavesUntil = Date.now() + LEAVING_MS;
});

// A part that is told anew whenever it changes; what comes after it is another page. Only while it can be seen: browsers
// keep few connections to one place, and nobody should ask AWS for a tab that nobody looks at.
for (const part of document.querySelectorAll("[data-live]")) {
  let source = null;
  const follow = () => {
    source?.close();
    source = null;
    if (document.hidden) return;
    source = new EventSource(part.dataset.live);
    source.addEventListener("part", (event) => {
      part.innerHTML = event.data;
    });
    source.addEventListener("over", () => {
      source.close();
      if (Date.now() < leavesUntil) setTimeout(follow, LEAVING_MS);
      else location.reload();
    });
    source.addEventListener("error", () => part.classList.add("stale"));
    source.addEventListener("open", () => part.classList.remove("stale"));
  };
  document.addEventListener("visibilitychange", follow);
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
