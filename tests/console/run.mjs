// Acts as a person who uses the console in a real browser: `node run.mjs LINK TASK JSON`. Each task is something that a
// person wants to do. Prints the findings as one JSON line or, if the task fails, the text of all open pages.
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const [link, task, json] = process.argv.slice(2);
const given = JSON.parse(json ?? '{}');
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const base = link.split('/?')[0];
mkdirSync(given.pictures, { recursive: true });

/** Events that must never happen on any page. */
const alarms = [];

const tasks = { looksAround, pausesAndResumes, refreshes, leavesInTime, looksAtTheFleet, filtersByKeyboard, plansTheFirstCause, notesACause, resolvesACause, seesThatItCameBack, entersByAFile, readsHostileTexts, editsOne, editsAll, sendsBack, startsSlowly, goesOn, noticesItsDeath, deletes, restores, onlyReads, visitsAnotherPort };

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
try {
  const found = await tasks[task]();
  if (alarms.length > 0) throw new Error(alarms.join('\n'));
  console.log(JSON.stringify(found ?? {}));
} catch (error) {
  for (const page of browser.contexts().flatMap((context) => context.pages())) {
    console.error(`${page.url()}:\n${await page.locator('body').innerText()}\n`);
  }
  throw error;
} finally {
  await browser.close();
}

/** Opens the link in a separate browser context. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  // A page might simulate two policies, which takes a long time on a busy machine.
  context.setDefaultTimeout(200_000);
  const page = await context.newPage();
  watch(page);
  await page.goto(link);
  if (page.url().includes('token')) throw new Error(`the token stays in the address: ${page.url()}`);
  if (!given.fleet) await page.goto(`${base}/0/`);
  return page;
}

/** Clicks and waits for the next page. The form first checks that the console runs, so the old page stays a moment. */
async function submits(page, button) {
  await Promise.all([page.waitForEvent('domcontentloaded'), button.click()]);
}

function watch(page) {
  page.on('dialog', (dialog) => {
    alarms.push(`a script of a message ran: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('pageerror', (error) => alarms.push(`a script failed: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error') alarms.push(`the browser complains: ${message.text()}`);
  });
  page.on('request', (request) => {
    const url = request.url();
    const isAlive = url === new URL('/alive', base).href;
    if (!url.startsWith(base) && !isAlive && !url.startsWith('data:')) alarms.push(`a request elsewhere: ${url}`);
  });
}

/** Evaluates a script in a page, and repeats it if the page reloads in the meantime. */
async function ask(page, script) {
  for (;;) {
    try {
      return await page.evaluate(script);
    } catch (error) {
      if (!error.message.includes('Execution context was destroyed')) throw error;
      await page.waitForLoadState();
    }
  }
}

/** Checks the page's accessibility with axe-core. (The page's policy forbids script elements, so axe is evaluated.) */
async function isAccessible(page, where) {
  const { violations } = await ask(page, `${axe}\naxe.run(document, { resultTypes: ['violations'] });`);
  for (const { id, nodes } of violations) alarms.push(`${where}: ${id}: ${nodes.map((node) => node.html).join(' ')}`);
}

async function isNarrowEnough(page, where) {
  const [needed, there] = await ask(page, () => [document.scrollingElement.scrollWidth, window.innerWidth]);
  if (needed > there) alarms.push(`${where} needs ${needed} of ${there} pixels`);
}

/** Takes a screenshot for people to look at; docs/console.md shows some of them. */
async function picture(page, name) {
  const { width, height } = await ask(page, () => ({
    width: window.innerWidth,
    height: Math.min(document.documentElement.scrollHeight, 1300),
  }));
  await page.screenshot({ path: `${given.pictures}/${name}.png`, fullPage: true, clip: { x: 0, y: 0, width, height } });
}

/** Visits all pages in the light and the dark theme, on a phone, a tablet and a desktop. */
async function looksAround() {
  const widths = { phone: 360, tablet: 768, desk: 1440 };
  for (const colorScheme of ['light', 'dark']) {
    const page = await open({ colorScheme });
    const goTo = (words) => page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: words, exact: true }).click();
    const pages = {
      now: async () => {
        await page.locator('.flow .spark').first().waitFor();
        await page.getByText(/^Alarm: .*-dead-letters$/).waitFor();
      },
      letters: async () => {
        await goTo('Dead letters');
        await page.locator('#causes').waitFor();
      },
      cause: async () => {
        await page.locator('#causes a').first().click();
        await page.getByRole('heading', { name: 'Examples' }).waitFor();
      },
      plans: () => goTo('Plans'),
      pause: () => goTo('Pause'),
    };
    for (const [name, show] of Object.entries(pages)) {
      await show();
      for (const [device, width] of Object.entries(widths)) {
        await page.setViewportSize({ width, height: 900 });
        await isAccessible(page, `${name} ${colorScheme} ${device}`);
        await isNarrowEnough(page, `${name} ${colorScheme} ${device}`);
        await picture(page, `${name}-${colorScheme}-${device}`);
      }
      await page.locator('details').evaluateAll((all) => all.forEach((one) => (one.open = true)));
      await isAccessible(page, `${name} ${colorScheme}, unfolded`);
    }
    await page.context().close();
  }
  return {};
}

/** Views every DLQ in the account. */
async function looksAtTheFleet() {
  const page = await open();
  const row = page.locator('table.dlqs tr', { hasText: given.dlq });
  await row.waitFor();
  await isAccessible(page, 'fleet');
  await picture(page, 'fleet');
  return { row: await row.innerText(), findings: await row.getByRole('listitem').allTextContents() };
}

/** Filters messages and opens one with the keyboard alone; then opens the filter's address in another browser. */
async function filtersByKeyboard() {
  const page = await open();
  const isFocused = (words) => page.evaluate((words) => document.activeElement?.textContent?.trim() === words, words);
  const tabTo = async (reached) => {
    for (let tabs = 0; tabs < 80; tabs++) {
      await page.keyboard.press('Tab');
      if (await reached()) return;
    }
    throw new Error('it cannot be reached by Tab');
  };
  await tabTo(() => isFocused('Skip to the page'));
  await tabTo(() => isFocused('Dead letters'));
  await page.keyboard.press('Enter');
  await page.locator('#causes').waitFor();
  // The page reloads when the console has read the queue, which would take the focus away.
  await page.goto(page.url());
  await page.locator('#causes').waitFor();
  await tabTo(() => page.evaluate(() => document.activeElement?.getAttribute('name') === 'q'));
  await page.keyboard.type(given.text);
  await page.keyboard.press('Enter');
  const firstLine = page.locator('main p').first();
  await page.getByRole('list', { name: 'Filters' }).waitFor();
  const words = await firstLine.textContent();
  const address = page.url();
  await tabTo(() => page.evaluate(() => /\/letters\/[^/?]+$/.test(document.activeElement?.getAttribute('href') ?? '')));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'A dead letter' }).waitFor();
  const other = await open();
  await other.goto(address);
  const shared = await other.locator('main p').first().textContent();
  await other.goto(`${base}/0/letters?where=${encodeURIComponent('.error_type ==')}`);
  const wrong = await other.getByRole('alert').textContent();
  return { words, shared, wrong };
}

/** Plans the first cause with the keyboard alone, and counts the keys. */
async function plansTheFirstCause() {
  const page = await open();
  await page.goto(`${base}/0/letters`);
  await page.locator('#causes').waitFor();
  // The page reloads when the console has read the queue.
  await page.goto(`${base}/0/letters`);
  const keys = ['Tab', 'Enter', 'Tab', 'Enter'];
  for (const key of keys) await page.keyboard.press(key);
  await page.getByRole('heading', { name: 'Examples' }).waitFor();
  for (const key of keys) await page.keyboard.press(key);
  await page.getByRole('button', { name: /^Send back/ }).waitFor();
  return { keys: 2 * keys.length };
}

/** Marks a cause as known, with a note for the next person. */
async function notesACause() {
  const page = await open();
  await page.goto(`${base}/0/letters`);
  await page.locator('#causes').waitFor();
  await page.locator('#causes a').first().click();
  await page.getByText('Mark as known').first().click();
  await page.getByLabel('Note for the next person').fill(given.note);
  await page.getByRole('button', { name: 'Mark as known' }).click();
  await page.getByText(/^Known since/).waitFor();
  const other = await open();
  await other.goto(`${base}/0/letters`);
  return { last: await other.locator('#causes tbody tr').last().innerText() };
}

/** Marks a cause as resolved, with the keyboard alone. */
async function resolvesACause() {
  const page = await open();
  await page.goto(`${base}/0/letters`);
  await page.locator('#causes').waitFor();
  await page.locator('#causes a').first().click();
  const cause = await page.getByRole('heading', { level: 1 }).textContent();
  const summary = page.locator('summary', { hasText: 'Mark as resolved' });
  for (let tabs = 0; !(await summary.evaluate((one) => one === document.activeElement)); tabs++) {
    if (tabs > 80) throw new Error('it cannot be reached by Tab');
    await page.keyboard.press('Tab');
  }
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  await page.keyboard.type(given.by);
  await page.keyboard.press('Enter');
  const resolved = page.locator('p.done', { hasText: /^Resolved/ });
  await resolved.waitFor();
  await isAccessible(page, 'resolved');
  const said = await resolved.innerText();
  await page.goto(`${base}/0/letters`);
  return { cause, said, last: await page.locator('#causes tbody tr').last().innerText() };
}

/** Checks that a resolved cause with newer messages is first in the list, and marks it as known again. */
async function seesThatItCameBack() {
  const page = await open();
  await page.goto(`${base}/0/letters`);
  await page.getByRole('button', { name: 'Refresh' }).click();
  const row = page.locator('#causes tbody tr', { hasText: 'came back' }).first();
  await row.waitFor();
  await isAccessible(page, 'came back');
  await picture(page, 'came-back');
  const first = await page.locator('#causes tbody tr').first().innerText();
  await page.goto(`${base}/0/`);
  await page.locator('.answer', { hasText: '1 cause came back' }).waitFor();
  await page.goto(`${base}/0/letters`);
  await row.locator('a').click();
  await isAccessible(page, 'cause that came back');
  await picture(page, 'cause-came-back');
  await page.getByRole('link', { name: 'Only the newer messages' }).click();
  await page.getByRole('list', { name: 'Filters' }).waitFor();
  const newer = await page.locator('main p').nth(1).innerText();
  await page.getByText('Mark as known').first().click();
  await page.getByRole('button', { name: 'Mark as known' }).click();
  await page.getByText(/^Known since/).waitFor();
  return { first, newer, marks: await page.locator('strong.new').allTextContents() };
}

/** Opens the file with which the console starts a browser, and follows it to the console. */
async function entersByAFile() {
  const page = await (await browser.newContext()).newPage();
  watch(page);
  alarms.length = 0;
  await page.goto(`file://${given.file}`);
  await page.getByRole('heading', { level: 1, name: 'Now' }).waitFor();
  alarms.splice(0, alarms.length, ...alarms.filter((alarm) => !alarm.startsWith('a request elsewhere: file:')));
  return { address: page.url().slice(base.length) };
}

/** Reads every kind of message, masked and revealed. */
async function readsHostileTexts() {
  const page = await open();
  await page.goto(`${base}/0/letters`);
  await page.locator('#causes').waitFor();
  const seen = [];
  for (const id of given.ids) {
    await page.goto(`${base}/0/letters/${id}`);
    const masked = await page.locator('.body pre').textContent();
    await isAccessible(page, `message ${id}`);
    await page.getByRole('link', { name: 'Reveal values' }).click();
    const revealed = await page.locator('.body pre').textContent();
    seen.push({ masked: masked.slice(0, 300), revealed: revealed.slice(0, 300), bytes: revealed.length });
  }
  await picture(page, 'message');
  return { seen };
}

/** Fixes one message; errors are reported during typing. */
async function editsOne() {
  const page = await open();
  await page.goto(`${base}/0/letters`);
  await page.locator('#causes').waitFor();
  await page.goto(`${base}/0/letters/${given.id}`);
  await page.getByRole('link', { name: 'Edit and send back' }).click();
  const body = page.getByLabel('Body');
  const verdict = page.locator('#verdict');
  const before = await body.inputValue();
  // Text typed before the page's script runs is not checked.
  await page.waitForLoadState();
  const said = [];
  for (const text of ['{', before.replace(/"message_id": "[^"]*"/, '"message_id": "x"'), before.replace(given.from, given.to)]) {
    const last = await verdict.textContent();
    await body.fill(text);
    await page.waitForFunction((last) => document.getElementById('verdict').textContent !== last, last);
    said.push(await verdict.textContent());
  }
  await isAccessible(page, 'edit');
  await picture(page, 'edit');
  await page.getByRole('button', { name: 'Plan to send it back' }).click();
  await page.getByRole('button', { name: 'Send back 1 message' }).click();
  await page.getByText('done', { exact: true }).waitFor();
  return { said };
}

/** Fixes all messages of one kind with one edit. */
async function editsAll() {
  const page = await open();
  await page.goto(`${base}/0/letters?type=${given.type}`);
  await page.getByRole('link', { name: /^Edit .* and send back$/ }).click();
  // Text typed before the page's script runs is not checked.
  await page.waitForLoadState();
  await page.getByLabel('Field of the body').fill(given.field);
  await page.getByLabel(/^Old value/).fill(given.old);
  await page.getByLabel(/^New value/).fill(given.new);
  await page.locator('#verdict pre.diff').first().waitFor();
  await isAccessible(page, 'edit all');
  await isNarrowEnough(page, 'edit all');
  await picture(page, 'edit-all');
  const said = await page.locator('#verdict table').innerText();
  const diff = await page.locator('#verdict pre.diff').first().innerText();
  await page.getByRole('button', { name: 'Plan to send them back' }).click();
  await page.getByText('On the command line').click();
  const command = await page.getByRole('region', { name: 'The command' }).innerText();
  await isAccessible(page, 'plan of an edit');
  await page.getByRole('button', { name: /^Send back/ }).click();
  await page.getByText('done', { exact: true }).waitFor();
  return { said, diff, command, outcome: await page.locator('table.plan').innerText() };
}

/** Restores deleted messages, and then tries to restore them again. */
async function restores() {
  const page = await open();
  const outcomes = [];
  for (let times = 0; times < 2; times++) {
    await page.goto(`${base}${given.plan}`);
    await submits(page, page.getByRole('button', { name: 'Restore to the source queue' }));
    const restore = page.getByRole('button', { name: /^Restore \d/ });
    const done = page.getByText('done', { exact: true });
    await restore.or(done).waitFor();
    await isAccessible(page, 'restore');
    if (await restore.isVisible()) await restore.dblclick();
    await done.waitFor();
    outcomes.push(await page.locator('table.plan').innerText());
  }
  return { outcomes };
}

/** Sends a group back to the source queue, like an impatient person with two tabs. */
async function sendsBack() {
  const page = await open();
  await page.goto(`${base}/0/letters?type=${given.type}`);
  await page.getByRole('button', { name: /^Plan to send back/ }).click();
  await page.getByRole('button', { name: /^Send back/ }).waitFor();
  await isAccessible(page, 'plan');
  await picture(page, 'plan');
  const plan = page.url();
  const other = await page.context().newPage();
  watch(other);
  await other.goto(plan);
  for (const one of [page, other]) await one.getByLabel(/^Watch the first 50/).fill('0');
  await Promise.all([
    page.getByRole('button', { name: /^Send back/ }).dblclick(),
    other.getByRole('button', { name: /^Send back/ }).click(),
  ]);
  for (const one of [page, other]) await one.getByText('done', { exact: true }).waitFor();
  await isAccessible(page, 'outcome');
  await picture(page, 'outcome');
  const outcome = await page.locator('table.plan').innerText();
  return { outcome, plan };
}

/** Starts a slow plan and leaves it running. */
async function startsSlowly() {
  const page = await open();
  await page.goto(`${base}/0/letters?type=${given.type}`);
  await page.getByRole('button', { name: /^Plan to send back/ }).click();
  await page.getByLabel(/^Messages per second/).fill(String(given.rate));
  await page.getByLabel(/^Watch the first 50/).fill('0');
  await page.getByRole('button', { name: /^Send back/ }).click();
  await page.getByText(/ of 250 messages sent back in this run, about .* left\./).waitFor();
  await isAccessible(page, 'running');
  await picture(page, 'running');
  return { plan: page.url().slice(base.length) };
}

/** Finishes the plan that a killed console had started. */
async function goesOn() {
  const page = await open();
  await page.goto(`${base}/0/plans`);
  await isAccessible(page, 'interrupted');
  await picture(page, 'interrupted');
  const state = await page.locator('tbody tr', { hasText: given.plan.split('/').pop() }).locator('td').nth(1).textContent();
  await page.goto(`${base}${given.plan}`);
  const done = page.getByText('done', { exact: true });
  const goOn = page.getByRole('button', { name: 'Continue' });
  const endings = [];
  // The messages held by the killed console become visible within two minutes; until then, the page says to try later.
  for (let times = 0; times < 12; times++) {
    await page.getByLabel(/^Messages per second/).fill('');
    await page.getByLabel(/^Watch the first 50/).fill('0');
    await submits(page, goOn);
    await done.or(goOn).waitFor();
    if (await done.isVisible()) {
      await isAccessible(page, 'finished');
      return { state, endings, outcome: await page.locator('table.plan').innerText() };
    }
    endings.push(await page.getByRole('status').textContent());
    await page.waitForTimeout(15_000);
  }
  throw new Error(`it never comes to an end: ${endings.join(' / ')}`);
}

/** Types text while the console is killed and restarted with the same command, and checks that the text is kept. */
async function noticesItsDeath() {
  const page = await open();
  await page.goto(`${base}/0/letters`);
  await page.locator('#causes').waitFor();
  const other = await page.context().newPage();
  watch(other);
  await other.goto(`${base}/0/plans`);
  await page.bringToFront();
  const text = page.locator('input[name=q]');
  await text.fill('typed before it died');
  process.kill(given.pid, 'SIGKILL');
  await page.getByText('The console has stopped.').waitFor();
  const words = await page.getByRole('alert').last().textContent();
  await text.press('Enter');
  await page.getByRole('link', { name: 'Plans', exact: true }).click();
  await other.bringToFront();
  await other.getByText('The console has stopped.').waitFor();
  const kept = await text.inputValue();
  await isAccessible(page, 'dead');
  await picture(page, 'dead');
  // The browser itself reports that nothing responds, which is not an error of a page.
  const refused = /net::ERR_(CONNECTION_|EMPTY_RESPONSE|INCOMPLETE)/;
  alarms.splice(0, alarms.length, ...alarms.filter((alarm) => !refused.test(alarm)));
  const [program, ...options] = given.command;
  const again = spawn(program, options, { env: given.environment, stdio: 'ignore' });
  try {
    await other.getByText('The console has stopped.').waitFor({ state: 'detached' });
    await other.getByRole('heading', { level: 1, name: 'Plans' }).waitFor();
    await page.bringToFront();
    await page.getByText('The console has stopped.').waitFor({ state: 'detached' });
    const still = await text.inputValue();
    await text.press('Enter');
    await page.getByRole('list', { name: 'Filters' }).getByText('typed before it died').waitFor();
    const [before, after] = [base, page.url()].map((url) => new URL(url).pathname.split('/')[1]);
    alarms.splice(0, alarms.length, ...alarms.filter((alarm) => !refused.test(alarm) && !alarm.startsWith('a request elsewhere')));
    return { words, kept, still, isElsewhere: before !== after };
  } finally {
    again.kill('SIGKILL');
  }
}

async function deletes() {
  const page = await open();
  await page.goto(`${base}/0/letters?type=${given.type}`);
  await page.getByRole('button', { name: /^Plan to delete/ }).click();
  await page.getByRole('button', { name: /^Delete/ }).click();
  await page.getByText('done', { exact: true }).waitFor();
  return { plan: page.url().slice(base.length), outcome: await page.locator('table.plan').innerText(), remark: await page.getByText(/messages that this run deleted are in/).textContent() };
}

/** Refreshes, and returns the causes that are new since the last refresh. */
async function refreshes() {
  const page = await open();
  await page.goto(`${base}/0/letters`);
  await page.getByRole('button', { name: 'Refresh' }).click();
  const row = page.locator('#causes tr', { hasText: given.cause }).first();
  await row.waitFor();
  await isAccessible(page, 'new cause');
  return { new: await page.locator('tr:has(.new) a').allTextContents(), row: await row.innerText() };
}

/** Clicks a link just before the page would reload. */
async function leavesInTime() {
  const page = await open();
  const letters = `${base}/0/letters`;
  await page.goto(letters);
  await page.route(`${base}/0/plans`, async (route) => {
    const isReading = async () => (await (await page.request.get(letters)).text()).includes('letters/live');
    while (await isReading()) await page.waitForTimeout(100);
    // The page learns about the end of the reading within a second.
    await page.waitForTimeout(2_000);
    await route.continue();
  });
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByRole('link', { name: 'Plans', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'Plans' }).waitFor();
  return {};
}

/** Pauses a deployment and resumes it. */
async function pausesAndResumes() {
  const page = await open();
  const switched = {};
  for (const [what, words] of [['paused', /^Pause /], ['resumed', /^Resume /]]) {
    await page.goto(`${base}/0/pause`);
    await page.getByRole('button', { name: words }).click();
    switched[what] = await page.locator('pre[role=status]').textContent({ timeout: 200_000 });
  }
  return switched;
}

/** Returns the buttons that a person with read-only access sees. */
async function onlyReads() {
  const page = await open();
  await page.goto(`${base}/0/letters`);
  await page.locator('#causes').waitFor();
  return { buttons: await page.getByRole('button').allTextContents() };
}

/** Visits a page on another port, from another user of this machine who saw the console's address in a screenshot. */
async function visitsAnotherPort() {
  const page = await open();
  const got = [];
  const server = createServer((request, response) => {
    got.push(request);
    response.setHeader('content-type', 'text/html');
    response.end('<!doctype html><title>Elsewhere</title><link rel="icon" href="data:,"><form method="post"></form>');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const elsewhere = `http://127.0.0.1:${server.address().port}/`;
    const other = await page.context().newPage();
    await other.goto(`${base}/0/letters`);
    await other.evaluate((url) => void (location.href = url), elsewhere);
    await other.waitForURL(elsewhere);
    const letters = `${base}/0/letters`;
    const read = await other.evaluate(async (url) => {
      const ways = [{ credentials: 'include' }, { credentials: 'include', mode: 'no-cors' }, { method: 'POST', credentials: 'include' }];
      const reads = ways.map((way) => fetch(url, way).then((answer) => answer.text()));
      const settled = await Promise.allSettled(reads);
      return settled.map(({ value }) => value ?? '');
    }, letters);
    const navigate = async (go) => {
      await other.goto(elsewhere);
      await Promise.all([other.waitForURL(`${base}/**`), other.evaluate(go, letters)]);
      return other.locator('body').innerText();
    };
    const linked = await navigate((url) => void (location.href = url));
    const posted = await navigate((url) => {
      document.forms[0].action = url;
      document.forms[0].submit();
    });
    return { cookies: got.map(({ headers }) => headers.cookie ?? ''), referrers: got.map(({ headers }) => headers.referer ?? ''), read, linked, posted };
  } finally {
    server.close();
  }
}
