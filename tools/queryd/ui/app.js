/*
 * app.js - the web page: which page is shown, what is said above it, keys, colours, tokens.
 *
 *	#/  #/partitions/7  #/tenants?sort=rate&q=team  #/tenants/NAME  #/limits  #/processes
 *	hash --route--> page { node, paths(), update(now) } <--answers-- net.js
 */
import { limits, processes } from './machine.js';
import * as net from './net.js';
import { attr, h, put, shape, show } from './parts.js';
import { partition, partitions } from './partitions.js';
import { repaint } from './plot.js';
import { tenant, tenants } from './tenants.js';
import * as text from './text.js';

const INSTANCE = '/api/v1/instance';
const $ = id => document.getElementById(id);

const tabs = [['Partitions', '#/'], ['Tenants', '#/tenants'], ['Limits', '#/limits'], ['Processes', '#/processes']];
let page = null, at = null;

/* --- where ---------------------------------------------------------------------------------- */

function decoded(string)
{
	try {
		return decodeURIComponent(string);
	} catch {
		return null;
	}
}

function missing(what)
{
	return { title: 'Not here', node: h('div', {}, h('h1', {}, 'Not here'), h('p', {}, `There is no ${what}. `, h('a', { href: '#/' }, 'All partitions'))), paths: () => [], update() {} };
}

function route(hash)
{
	const [path, query = ''] = (hash || '#/').slice(1).split('?', 2), parts = path.split('/').slice(1).map(decoded);
	if (parts.includes(null))
		return missing('such address: it has a broken percent escape');
	if (parts[0] === '' || (parts[0] === 'partitions' && parts.length === 1))
		return partitions();
	if (parts[0] === 'partitions' && parts.length === 2 && /^[0-9]{1,10}$/.test(parts[1]))
		return partition(parts[1]);
	if (parts[0] === 'tenants')
		return parts.length === 1 ? tenants(new URLSearchParams(query), go) : tenant(parts.slice(1).join('/'));
	if (parts[0] === 'limits' && parts.length === 1)
		return limits();
	if (parts[0] === 'processes' && parts.length === 1)
		return processes();
	return missing('such page');
}

/* The same page with other parameters keeps its place. */
function go(hash, quietly)
{
	if (!quietly) {
		location.hash = hash;
		return;
	}
	history.replaceState(null, '', hash);
	at = hash;
	net.restart();
}

function turn()
{
	const hash = location.hash || '#/', first = page === null;
	if (hash === at)
		return;
	const was = at;
	at = hash;
	page = route(hash);
	$('main').replaceChildren(page.node);
	const tab = hash.startsWith('#/tenants') ? '#/tenants' : hash.startsWith('#/partitions') ? '#/' : hash.split('?')[0];
	for (const link of $('tabs').children)
		attr(link, 'aria-current', link.getAttribute('href') === tab ? 'page' : null);
	if (!first)
		scrollTo(0, 0);
	refresh();
	net.restart();
	/* Who works with keys goes on where he was, or at the first of the list. */
	if (was && !page.node.contains(document.activeElement))
		(page.node.querySelector(`.item[href="${CSS.escape(was)}"]`) ?? $('main')).focus({ preventScroll: first });
}

/* --- what is said above --------------------------------------------------------------------- */

const banner_nodes = new Map();

/* A banner for each id that has something to say: tone, words, and perhaps a button. */
function banner(id, tone, words, button)
{
	let b = banner_nodes.get(id);
	if (!b) {
		const line = h('span'), since = h('span.since.dim', { 'aria-hidden': 'true' });
		b = { line, since, node: h('div.banner', { role: tone === 'bad' ? 'alert' : 'status', id: `banner-${id}`, hidden: true }, shape('warning'), line, since, button ?? null) };
		banner_nodes.set(id, b);
		$('banners').append(b.node);
	}
	attr(b.node, 'data-tone', tone);
	show(b.node, Boolean(words));
	put(b.line, words || '');
	return b;
}

function banners(now)
{
	const got = net.entry(INSTANCE), i = got.json, lost = net.state.lost;
	const contact = banner('contact', 'bad', lost && (net.state.last
		? `No contact since ${text.clock(net.state.last)}. What you see is from then.`
		: 'No contact: tally-queryd does not answer.'));
	/* Beside it, since what is in an alert is read aloud whenever it changes. */
	put(contact.since, lost && net.state.last ? text.duration(Date.now() - net.state.last) : '');
	banner('token', 'warn', net.state.held && !$('token').open && 'A token is needed; nothing is asked without one.',
		h('button', { type: 'button', onclick: () => ask_token() }, 'Give one'));
	banner('instance', 'bad', !lost && got.error && ![401, 403].includes(got.error.status) && `${got.error.reason || got.error.word}.`);
	banner('dead', 'bad', !lost && i && !i.alive && (i.stopped ? 'tallyd has stopped: what you see is what it left.' : `tallyd is gone: no sign of life for ${text.duration(i.heartbeat_age_ms)}.`));
	banner('group', 'warn', !lost && i?.alive && i.group_state !== 'member' && `Not a member of group ${i.group}: ${i.group_state.replaceAll('_', ' ')}.`);
	banner('limits', 'warn', !lost && i?.limits_state === 'refused' && !at.startsWith('#/limits') && `Limits refused: ${i.limits_error}`);
	banner('clock', 'warn', !lost && i && i.clock_offset_ms !== 0 && `This instance's clock is moved by ${text.duration(Math.abs(i.clock_offset_ms))} (clock_offset).`);
}

function contact()
{
	const { lost, last, held } = net.state;
	const words = held ? 'no token' : lost ? 'no contact' : last ? 'live' : '…';
	const tone = held ? 'warn' : lost ? 'bad' : last ? 'good' : 'idle';
	if ($('contact').lastElementChild?.textContent !== words)
		$('contact').replaceChildren(shape(held ? 'warning' : lost ? 'failed' : last ? 'ready' : 'pending'), h('span'));
	attr($('contact'), 'data-tone', tone);
	put($('contact').lastElementChild, words);
	attr($('contact'), 'title', last ? `last answer at ${text.clock(last)}` : null);
	document.body.classList.toggle('stale', lost !== null);
}

/* "Now" as the instance counts: its answer's, plus what has gone by here since, when it answers. */
function now()
{
	const got = net.entry(INSTANCE);
	if (!got.json)
		return net.state.lost && net.state.last ? net.state.last : Date.now();
	return got.json.now_ms + Math.max(0, (net.state.lost ? net.state.last : Date.now()) - got.at);
}

function refresh()
{
	const i = net.entry(INSTANCE).json;
	if (net.state.held && !$('token').open && !refresh.refused)
		ask_token();
	contact();
	banners(now());
	page.update(now());
	put($('who'), i ? `${i.instance} · zone ${i.zone}` : '');
	put($('where'), i ? `${i.instance}, zone ${i.zone}, topic ${i.topic}, group ${i.group} (${i.group_state})` : '');
	put($('version'), net.state.server);
	document.title = `${net.state.lost ? '✕ ' : ''}${page.title} – Tally${i ? ` ${i.instance}` : ''}`;
}

/* While nobody answers, time goes on all the same. */
setInterval(() => {
	if (net.state.lost !== null && !document.hidden) {
		contact();
		banners();
	}
}, 1000);

/* --- tokens --------------------------------------------------------------------------------- */

function ask_token()
{
	refresh.refused = false;
	put($('token-why'), net.token.get() ? `The server does not take this one: ${net.state.needs}.` : 'This server answers only to those who have one (query.tokens_file).');
	$('token-text').value = '';
	$('token').showModal();
	$('token-text').focus();
}

$('token-form').addEventListener('submit', e => {
	e.preventDefault();
	$('token').close();
	refresh.refused = false;
	net.token.set($('token-text').value.trim());
	$('token-text').value = '';
});
$('token-cancel').addEventListener('click', () => $('token').close());
$('token').addEventListener('close', () => {
	if (net.state.held) {
		refresh.refused = true;
		refresh();
	}
});

/* --- colours -------------------------------------------------------------------------------- */

const dark = matchMedia('(prefers-color-scheme: dark)');

function paint()
{
	const chosen = localStorage.getItem('tally.theme');
	attr(document.documentElement, 'data-theme', chosen);
	put($('theme'), (chosen ?? (dark.matches ? 'dark' : 'light')) === 'dark' ? 'Light' : 'Dark');
	repaint();
}

function other_theme()
{
	const is = localStorage.getItem('tally.theme') ?? (dark.matches ? 'dark' : 'light'), next = is === 'dark' ? 'light' : 'dark';
	/* What the system has anyway need not be remembered. */
	if ((next === 'dark') === dark.matches)
		localStorage.removeItem('tally.theme');
	else
		localStorage.setItem('tally.theme', next);
	paint();
}

/* --- keys ----------------------------------------------------------------------------------- */

/* Items in the order that they are seen; steps of a row in a grid. */
function move(dx, dy)
{
	const items = [...document.querySelectorAll('main .item')], i = items.indexOf(document.activeElement);
	if (!items.length)
		return false;
	let to = i < 0 ? 0 : i + dx;
	if (i >= 0 && dy !== 0) {
		const box = items[i].getBoundingClientRect(), x = box.left + box.width / 2;
		const beyond = items.map(item => item.getBoundingClientRect()).map((b, k) => ({ k, y: b.top - box.top, x: Math.abs(b.left + b.width / 2 - x) }))
			.filter(b => b.y * dy > 2).sort((a, b) => Math.abs(a.y) - Math.abs(b.y) || a.x - b.x);
		to = beyond.length ? beyond[0].k : i;
	}
	to = Math.max(0, Math.min(items.length - 1, to));
	items[to].focus();
	items[to].scrollIntoView({ block: 'nearest' });
	return true;
}

const keys = [
	['/', 'search tenants', () => {
		if (!page.search)
			location.hash = '#/tenants';
		setTimeout(() => { page.search?.focus(); page.search?.select(); }, page.search ? 0 : 30);
	}],
	['j', 'next', () => move(1, 0), ['ArrowDown', () => move(0, 1)], ['ArrowRight', () => move(1, 0)]],
	['k', 'the one before', () => move(-1, 0), ['ArrowUp', () => move(0, -1)], ['ArrowLeft', () => move(-1, 0)]],
	['Enter', 'open', null],
	['u', 'up', () => { if (page.up) location.hash = page.up; }],
	['1', 'partitions', () => { location.hash = tabs[0][1]; }],
	['2', 'tenants', () => { location.hash = tabs[1][1]; }],
	['3', 'limits', () => { location.hash = tabs[2][1]; }],
	['4', 'processes', () => { location.hash = tabs[3][1]; }],
	['t', 'dark or light', other_theme],
	['?', 'these keys', () => $('help').showModal()],
	['Esc', 'close; leave the search', null],
];

const bound = new Map(keys.flatMap(([key, , act, ...others]) => act ? [[key, act], ...others] : []));

document.addEventListener('keydown', e => {
	if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]'))
		return;
	if (e.target.matches?.('input, textarea, select')) {
		if (e.key === 'Escape')
			e.target.blur();
		else if (e.key === 'ArrowDown' && move(0, 0))
			e.preventDefault();
		return;
	}
	const act = bound.get(e.key);
	if (!act)
		return;
	if (act() !== false)
		e.preventDefault();
});

/* --- begin ---------------------------------------------------------------------------------- */

$('tabs').append(...tabs.map(([words, href]) => h('a', { href }, words)));
$('keys').append(...keys.map(([key, words, , ...others]) => h('div', {}, h('dt', {}, h('kbd', {}, key), others.map(([k]) => h('kbd', {}, { ArrowDown: '↓', ArrowUp: '↑', ArrowLeft: '←', ArrowRight: '→' }[k]))), h('dd', {}, words))));
$('theme').addEventListener('click', other_theme);
$('help-button').addEventListener('click', () => $('help').showModal());
dark.addEventListener('change', paint);
paint();
document.querySelector('.skip').addEventListener('click', e => {
	e.preventDefault();
	$('main').focus();
});
window.addEventListener('hashchange', turn);
net.start(() => page ? [INSTANCE, ...page.paths()] : [], refresh);
turn();
