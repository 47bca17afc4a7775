/*
 * net.js - asks the API, again and again, and knows how old each answer is.
 *
 *	paths of the page --every 2 s, while the tab is seen--> entries: last good answer, last error
 *
 * An answer that fails leaves the one before it in place.  Nobody answering at all is another
 * thing than being told "not now": only the first is lost contact.
 */

const EVERY_MS = 2000;
const SLOWEST_MS = 10000;
const PATIENCE_MS = 8000;
const KEY = 'tally.token';

const entries = new Map();	// path -> { json, at, error }
let paths = () => [], heard = () => {};
let timer = null, round = 0, asking = false, again = false, stop = null;

export const state = {
	lost: null,		// since when nobody answers; null = somebody does
	last: null,		// when somebody answered last
	needs: null,		// why a token is needed
	held: false,		// a token is asked for: nothing is sent meanwhile
	server: '',
	failures: 0,
	slow: 0,
};

export const token = {
	get: () => sessionStorage.getItem(KEY) ?? '',
	set(text) { sessionStorage.setItem(KEY, text); forget(); },
	drop() { sessionStorage.removeItem(KEY); forget(); },
};

/* Answers belong to the token that they were given to. */
function forget()
{
	entries.clear();
	state.needs = null;
	state.held = false;
	restart();
}

export const entry = path => entries.get(path) ?? {};

/* { status, json }; throws when nobody answers. */
async function ask(path, signal)
{
	const headers = { Accept: 'application/json' };
	if (token.get())
		headers.Authorization = `Bearer ${token.get()}`;
	const response = await fetch(path,
		{ headers, signal, cache: 'no-store', credentials: 'same-origin', redirect: 'error', referrerPolicy: 'no-referrer' });
	const server = response.headers.get('server') ?? '';
	const text = await response.text();
	try {
		return { status: response.status, json: JSON.parse(text), server };
	} catch {
		/* A proxy's own page: Tally did not answer. */
		throw new Error(`status ${response.status}, and no JSON`);
	}
}

function late_one(path)
{
	entries.set(path, { ...entry(path), error: { status: 0, word: 'late', reason: `No answer came within ${PATIENCE_MS / 1000} s` } });
}

/* true: Tally answered. */
async function ask_one(path, signal)
{
	const mine = round;
	let answer;
	try {
		answer = await ask(path, signal);
	} catch {
		return false;
	}
	if (mine !== round)
		return true;
	if (answer.server)
		state.server = answer.server;
	const before = entries.get(path) ?? {};
	if (answer.status === 200)
		entries.set(path, { json: answer.json, at: Date.now(), error: null });
	else
		entries.set(path, { ...before, error: { status: answer.status, word: answer.json.error, reason: answer.json.reason ?? '', json: answer.json } });
	if (answer.status === 401)
		state.needs = answer.json.reason ?? 'no token';
	return true;
}

function settle(answered)
{
	const now = Date.now();
	if (answered) {
		state.last = now;
		state.lost = null;
		state.failures = 0;
	} else {
		state.lost ??= state.last ?? now;
		state.failures++;
	}
}

export async function poll()
{
	clearTimeout(timer);
	if (document.hidden || state.held)
		return;
	if (asking) {
		again = true;
		return;
	}
	asking = true;
	const list = [...new Set(paths())], begun = Date.now(), mine = ++round;
	stop = new AbortController();
	const late = setTimeout(() => stop.abort(), PATIENCE_MS);
	const answered = await Promise.all(list.map(path => ask_one(path, stop.signal)));
	clearTimeout(late);
	asking = false;
	if (mine === round && list.length && !again) {
		settle(answered.some(x => x));
		/* Others were answered: this one alone is late. */
		if (answered.some(x => x))
			list.filter((path, i) => !answered[i]).forEach(late_one);
	}
	if (state.needs !== null)
		state.held = true;
	if (again) {
		again = false;
		poll();
		return;
	}
	heard();
	const took = Date.now() - begun;
	/* What is heavy for the server is asked less often; so is one that does not answer. */
	const wait = state.failures ? Math.min(EVERY_MS * state.failures, SLOWEST_MS) : EVERY_MS + Math.min(4 * Math.max(0, took - 200), SLOWEST_MS);
	clearTimeout(timer);
	if (!document.hidden && !state.held)
		timer = setTimeout(poll, wait);
}

/* The page has changed: what it needs is asked at once, and what is no longer needed is dropped. */
export function restart()
{
	if (asking) {
		again = true;
		round++;
		stop?.abort();
	}
	const wanted = new Set(paths());
	for (const path of entries.keys())
		if (!wanted.has(path) && entries.size > 40)
			entries.delete(path);
	poll();
}

export function start(what, listener)
{
	paths = what;
	heard = listener;
	document.addEventListener('visibilitychange', () => document.hidden ? clearTimeout(timer) : poll());
	window.addEventListener('online', poll);
	poll();
}
