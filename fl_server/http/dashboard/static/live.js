// Fetches the middle of the page again while somebody looks at it.
"use strict";

const EVERY_MS = 2000;
const middle = document.getElementById("live");
const pulse = document.getElementById("pulse");

async function renew() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.pathname, { headers: { "x-part": "1" } });
    if (answer.status === 401) return location.reload();
    if (!answer.ok) throw new Error(answer.status);
    const html = await answer.text();
    if (html !== renew.last) middle.innerHTML = renew.last = html;
    pulse.className = "pulse";
    pulse.textContent = "live";
  } catch {
    pulse.className = "pulse lost";
    pulse.textContent = "no answer";
  }
}

if (pulse) setInterval(renew, EVERY_MS);
