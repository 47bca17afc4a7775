/*
 * parts.js - pieces that the pages are made of.
 *
 * Text goes in as text: nothing here, or anywhere else on this page, makes markup of a string.
 * Nodes are made once and then changed where something has changed, so that what is focused,
 * selected or scrolled stays so while numbers move.
 */
import * as text from './text.js';

/* h('a.card', { href: '#/' }, kids...): a kid is a node, a string, or nothing. */
export function h(what, attributes = {}, ...kids)
{
	const [tag, ...classes] = what.split('.');
	const node = document.createElement(tag || 'div');
	if (classes.length)
		node.className = classes.join(' ');
	for (const [key, value] of Object.entries(attributes))
		if (key.startsWith('on'))
			node.addEventListener(key.slice(2), value);
		else if (value !== null && value !== undefined && value !== false)
			node.setAttribute(key, value === true ? '' : value);
	node.append(...kids.flat().filter(kid => kid !== null && kid !== undefined && kid !== false));
	return node;
}

export function put(node, string)
{
	if (node.textContent !== string)
		node.textContent = string;
}

export function attr(node, key, value)
{
	if (value === null || value === undefined || value === false)
		node.removeAttribute(key);
	else if (node.getAttribute(key) !== String(value))
		node.setAttribute(key, value);
}

export const show = (node, yes) => { if (node.hidden === yes) node.hidden = !yes; };

/* Brings the kids of `parent` in line with `items`: made by key once, kept, moved, dropped. */
export function keyed(parent, items, key, make, update)
{
	const have = parent.keyed ??= new Map(), seen = new Set();
	let at = parent.firstElementChild;
	for (const item of items) {
		const k = String(key(item));
		let kid = have.get(k);
		if (!kid) {
			kid = make(item);
			have.set(k, kid);
		}
		seen.add(k);
		update(kid, item);
		if (kid.node === at)
			at = at.nextElementSibling;
		else
			parent.insertBefore(kid.node, at);
	}
	for (const [k, kid] of have)
		if (!seen.has(k)) {
			kid.node.remove();
			have.delete(k);
		}
}

/* --- shapes: each state is a word, a shape and a colour, and any one of them is enough ------- */

const shapes = {
	ready: 'M6 1.2a4.8 4.8 0 1 0 0 9.6a4.8 4.8 0 1 0 0-9.6z',
	replaying: 'M6 1a5 5 0 1 0 0 10a5 5 0 1 0 0-10zm0 1.6v6.8a3.4 3.4 0 1 1 0-6.8z',
	pending: 'M6 1a5 5 0 1 0 0 10a5 5 0 1 0 0-10zm0 1.6a3.4 3.4 0 1 1 0 6.8a3.4 3.4 0 1 1 0-6.8z',
	draining: 'M5.1 1h1.8v5.6h2.9L6 11 2.2 6.6h2.9z',
	parked: 'M2.6 1.5h2.3v9H2.6zM7.1 1.5h2.3v9H7.1z',
	failed: 'M2.5 1.3 6 4.8l3.5-3.5 1.2 1.2L7.2 6l3.5 3.5-1.2 1.2L6 7.2l-3.5 3.5-1.2-1.2L4.8 6 1.3 2.5z',
	stopped: 'M1.8 1.8h8.4v8.4H1.8z',
	warning: 'M6 .8 11.6 11H.4zM5.3 4.4v3.2h1.4V4.4zm0 4v1.3h1.4V8.4z',
	nothing: 'M0 0',
	free: 'M4.6 6a1.4 1.4 0 1 0 2.8 0a1.4 1.4 0 1 0-2.8 0z',
};

export function shape(name)
{
	const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
	const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
	svg.setAttribute('viewBox', '0 0 12 12');
	svg.setAttribute('class', 'shape');
	svg.setAttribute('aria-hidden', 'true');
	path.setAttribute('d', shapes[name] ?? shapes.free);
	path.setAttribute('fill-rule', 'evenodd');
	svg.append(path);
	return svg;
}

/* A word with its shape; kind is one of the shapes, tone good | busy | idle | warn | bad. */
export function mark()
{
	const node = h('span.mark'), word = h('span');
	let now = '';
	node.append(shape('free'), word);
	return { node, set(kind, tone, string) {
		if (now !== kind) {
			node.replaceChild(shape(kind), node.firstChild);
			now = kind;
		}
		attr(node, 'data-tone', tone);
		put(word, string);
	} };
}

const tones = { ready: 'good', replaying: 'busy', pending: 'idle', draining: 'warn', parked: 'idle', failed: 'bad', stopped: 'idle', free: 'idle' };

/* What a partition is, in a word. */
export function standing(p)
{
	if (p.state === 'ready' && !p.ready)
		return ['warning', 'bad', 'lease over'];
	return [p.state in shapes ? p.state : 'free', tones[p.state] ?? 'idle', p.state];
}

/* --- names ---------------------------------------------------------------------------------- */

/* A name as it is, one line or wrapped; what cannot be seen is spelt out. */
export function name(string, otherwise = '(default)')
{
	if (string === '')
		return h('span.dim', {}, otherwise);
	return h('bdi.name', { title: text.plain(string), dir: 'ltr' },
		text.pieces(string).map(p => p.hidden ? h('span.hidden-char', {}, p.text) : p.text));
}

export const tenant_href = string => `#/tenants/${encodeURIComponent(string)}`;

/* --- bars ----------------------------------------------------------------------------------- */

export function bar(label)
{
	const fill = h('span.fill'), node = h('span.bar', { role: 'progressbar', 'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': 100 }, fill);
	return { node, set(ratio, tone) {
		const shown = Math.max(0, Math.min(1, ratio ?? 0));
		const width = `${(shown * 100).toFixed(shown > 0 && shown < 1 ? 1 : 0)}%`;
		if (fill.style.width !== width)
			fill.style.width = width;
		attr(node, 'data-tone', tone);
		attr(node, 'aria-valuenow', ratio == null ? null : Math.round(shown * 100));
	} };
}

/* How near to a limit: tone and words. */
export function nearness(n)
{
	if (!n)
		return ['idle', 'not known'];
	if (n.used === null)
		return ['idle', 'no limit'];
	if (n.used >= 1)
		return n.dry_run ? ['warn', 'full, dry run'] : ['bad', 'full'];
	return [n.used >= 0.9 ? 'warn' : 'rest', text.part(n.used)];
}

export const nearness_shape = n => n?.used == null || n.used < 0.75 ? 'nothing' : n.used < 0.9 ? 'replaying' : n.used < 1 ? 'warning' : 'failed';

/* --- panels and facts ----------------------------------------------------------------------- */

export function panel(title, ...kids)
{
	return h('section.panel', {}, h('h2', {}, title), ...kids);
}

/* Rows of label and value: facts([['Lag', value]]) is { node, set([...]) } with the same rows. */
export function facts()
{
	const node = h('dl.facts');
	return { node, set(rows) {
		keyed(node, rows.filter(Boolean), row => row[0], row => {
			const value = h('dd');
			return { node: h('div', {}, h('dt', {}, row[0]), value), value };
		}, (kid, [, value, tone]) => {
			if (value instanceof Node)
				kid.value.firstChild === value || kid.value.replaceChildren(value);
			else
				put(kid.value, value);
			attr(kid.value, 'data-tone', tone ?? null);
		});
	} };
}

/* A line that is there when there is something to say. */
export function notice(tone = 'warn')
{
	const word = h('span'), node = h('p.notice', { hidden: true, 'data-tone': tone }, shape(tone === 'idle' ? 'pending' : 'warning'), word);
	return { node, set(string) {
		show(node, Boolean(string));
		put(word, string || '');
	} };
}

/* What an entry's error says, for people; '' when there is none. */
export function trouble(entry, scope)
{
	const error = entry.error;
	if (!error)
		return '';
	if (error.status === 403)
		return `Your token may not see this: it needs the scope ${scope} (or admin).`;
	if (error.status === 401)
		return `A token is needed: ${error.reason}.`;
	return `${error.reason || error.word || `status ${error.status}`}${entry.json ? `. Shown as of ${text.clock(entry.at)}.` : ''}`;
}

export function table(columns)
{
	const head = h('tr', {}, columns.map(([title, kind]) => h('th', { class: kind || null, scope: 'col' }, title)));
	const body = h('tbody');
	return { node: h('div.scroll', {}, h('table', {}, h('thead', {}, head), body)), body, head };
}
