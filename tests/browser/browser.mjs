/*
 * browser.mjs - a browser, and how a script says what it has seen: for the scripts of this folder.
 *
 *	stdout: "ok - ", "not ok - ", "do: SHELL"  --the test's shell--> stdin: "done"
 */
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const { chromium } = createRequire(`${process.env.MODULES}/`)('playwright-core');
export const base = process.env.BASE;
export const FOREIGN = 'evil.example';	// a name that somebody else owns, and lets lead to us

const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
export const say = line => console.log(String(line).replaceAll('\n', ' '));

/* Something that only the shell can do. */
export async function shell(command)
{
	say(`do: ${command}`);
	if ((await input.next()).value !== 'done')
		throw new Error(`the shell did not do: ${command}`);
}

export function ok(yes, name, why = '')
{
	say(`${yes ? 'ok' : 'not ok'} - ${name}`);
	if (!yes && why !== '')
		say(`# ${why}`);
}

export const is = (got, expected, name) => ok(got === expected, name, `got ${JSON.stringify(got)}, expected ${JSON.stringify(expected)}`);

/* Waits until `look` gives what `good` takes. */
export async function eventually(name, look, good = x => Boolean(x), seconds = 20)
{
	const end = Date.now() + seconds * 1000;
	let last;
	do {
		last = await look().catch(e => `(${e.message.split('\n')[0]})`);
		if (good(last))
			return ok(true, name);
		await new Promise(go => setTimeout(go, 100));
	} while (Date.now() < end);
	return ok(false, name, `last: ${JSON.stringify(last)}`);
}

/* What keeps foreign pages from this machine's addresses in this browser, and not in others. */
const PROTECTION = 'BlockInsecurePrivateNetworkRequests,LocalNetworkAccessChecks,PrivateNetworkAccessSendPreflights';

let browser = null;
export const asked = [];	// all addresses that any page has asked for
export const wrong = [];	// what pages complained of

export async function start()
{
	browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage', `--host-resolver-rules=MAP ${FOREIGN} 127.0.0.1`, `--disable-features=${PROTECTION}`] });
}
export const end = () => browser.close();

/* A tab in which a stranger's page is open: what it asks for, and complains of, is its own affair. */
export async function foreign_tab()
{
	const page = await (await browser.newContext()).newPage();
	page.setDefaultTimeout(15000);
	return page;
}

/* A tab of its own: nothing is remembered from one to the next. */
export async function tab({ scheme = 'light', width = 1280, height = 900, permitted = [] } = {})
{
	const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height } });
	const page = await context.newPage();
	page.on('request', r => asked.push(r.url()));
	page.on('pageerror', e => wrong.push(e.message));
	page.on('dialog', d => { wrong.push(`dialog: ${d.message()}`); d.dismiss(); });
	// That an answer is late or is 503 (a worker was killed) is for the page to show, and no complaint.
	const of_answers = m => m.text().startsWith('Failed to load resource') && m.location().url.startsWith(`${base}/api/`);
	page.on('console', m => {
		if (['error', 'warning'].includes(m.type()) && !of_answers(m) && !permitted.some(p => m.text().includes(p)))
			wrong.push(`${m.text()} (${m.location().url})`);
	});
	page.setDefaultTimeout(15000);
	return page;
}

export const shot = (page, name) => page.screenshot({ path: `${process.env.SHOTS}/${name}.png` });
