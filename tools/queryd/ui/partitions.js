/*
 * partitions.js - the page of all partitions, and that of one.
 */
import { entry } from './net.js';
import { attr, bar, facts, h, keyed, mark, notice, panel, put, show, standing, table, trouble } from './parts.js';
import { plot, ring } from './plot.js';
import * as text from './text.js';

const MANY = 96;	// from here on they are small, and those that are not well come first, as cards
const WORST = 60;

const rates = new Map();	// partition -> ring of records a second; 'all': their sum

function remember(key, ms, value)
{
	if (!rates.has(key))
		rates.set(key, ring());
	rates.get(key).add(ms, value);
}

const death = (p, now) => p.death === 'none' || !p.death_at_ms ? ''
	: `${p.death === 'signal' || p.death === 'exit' ? '' : `${p.death} `}${p.death_detail || p.death}, ${text.ago(now - p.death_at_ms)}`;

/* What it is doing, when it is not simply ready. */
function doing(p)
{
	if (p.retry_in_ms > 0)
		return `starts again in ${text.duration(p.retry_in_ms)}`;
	if (p.state === 'replaying')
		return p.has_stats ? `${text.percent(p.progress)}${p.eta_ms == null ? '' : `, ${text.duration(p.eta_ms)} to go`}` : 'starting';
	if (p.state === 'pending')
		return p.has_stats ? `worker: ${p.phase}` : 'waits for its turn';
	return '';
}

const well = p => p.state === 'ready' && p.ready && !p.problems;

/* --- all ------------------------------------------------------------------------------------ */

function card(p)
{
	const state = mark(), progress = bar('replay');
	const cell = label => { const value = h('dd'); return [h('div', {}, h('dt', {}, label), value), value]; };
	const [rate, rate_value] = cell('rec/s'), [lag, lag_value] = cell('lag'), [streams, streams_value] = cell('streams'), [restarts, restarts_value] = cell('restarts');
	const line = h('p.line'), dead = h('p.line.dim'), problems = h('p.line');
	const node = h('a.card.item', { href: `#/partitions/${p.partition}` },
		h('div.head', {}, h('strong.number', {}, String(p.partition)), state.node), progress.node,
		h('dl', {}, rate, lag, streams, restarts), line, problems, dead);
	return { node, state, progress, rate: rate_value, lag: lag_value, streams: streams_value, restarts: restarts_value, line, dead, problems };
}

function fill_card(kid, p, now)
{
	const [kind, tone, word] = standing(p), busy = p.state === 'replaying';
	kid.state.set(kind, tone, word);
	kid.progress.set(busy ? p.progress ?? 0 : p.state === 'ready' ? 1 : 0, busy ? 'busy' : tone === 'good' ? 'rest' : tone);
	attr(kid.progress.node, 'aria-hidden', busy ? null : 'true');
	put(kid.rate, text.short(p.records_per_sec));
	put(kid.lag, text.short(p.lag));
	put(kid.streams, text.short(p.streams_stored));
	put(kid.restarts, text.count(p.restarts));
	attr(kid.restarts, 'data-tone', p.restarts ? 'warn' : null);
	put(kid.line, doing(p));
	put(kid.problems, p.problems ?? '');
	attr(kid.problems, 'data-tone', 'bad');
	put(kid.dead, death(p, now) && `died: ${death(p, now)}`);
	attr(kid.node, 'data-state', p.state);
	attr(kid.node, 'data-well', well(p) ? '' : null);
	attr(kid.node, 'aria-label', [`partition ${p.partition}`, word, doing(p), p.lag == null ? '' : `lag ${p.lag}`, p.problems].filter(Boolean).join(', '));
}

const words_of_states = ['failed', 'replaying', 'pending', 'draining', 'parked', 'stopped'];

export function partitions()
{
	const summary = facts(), warn = notice(), ill = h('div.cards'), grid = h('div.cards'), nothing = notice('idle');
	const graph = plot({ label: 'records per second, since this page was opened', format: text.short, height: 96, whole: true });
	summary.node.classList.add('strip');
	const node = h('div', {}, h('h1', {}, 'Partitions'), summary.node, warn.node, nothing.node, ill, grid, h('section.panel.slim', {}, graph.node));
	return {
		title: 'Partitions', node,
		paths: () => ['/api/v1/partitions'],
		update(now) {
			const got = entry('/api/v1/partitions'), list = got.json?.partitions ?? [], basis = got.json?.basis;
			warn.set(trouble(got, 'read'));
			if (!got.json)
				return;
			const sum = key => list.reduce((s, p) => s + (p[key] ?? 0), 0);
			const all = sum('records_per_sec'), lags = list.filter(p => p.lag != null);
			const others = words_of_states.map(s => [s, list.filter(p => p.state === s).length]).filter(([, n]) => n);
			remember('all', got.at, all);
			for (const p of list)
				remember(p.partition, got.at, p.records_per_sec ?? null);
			summary.set([
				['ready', `${text.count(list.filter(p => p.ready).length)} of ${text.count(list.length)}`, list.length && list.every(p => p.ready) ? 'good' : 'warn'],
				...others.map(([s, n]) => [s, text.count(n), s === 'failed' ? 'bad' : null]),
				basis && basis.owned < basis.partitions && ['of the topic', text.count(basis.partitions)],
				['records/s', text.short(all)],
				['lag', lags.length ? text.short(sum('lag')) : text.none],
				['streams', text.short(sum('streams_stored'))],
				['stores', text.bytes(sum('store_bytes'))],
				['restarts', text.count(sum('restarts')), sum('restarts') ? 'warn' : null],
			]);
			nothing.set(list.length ? '' : 'This instance owns no partition now: the group has given it none.');
			const many = list.length > MANY, unwell = many ? list.filter(p => !well(p)) : [];
			grid.classList.toggle('many', many);
			show(ill, unwell.length > 0);
			keyed(ill, unwell.slice(0, WORST), p => p.partition, card, (kid, p) => fill_card(kid, p, now));
			keyed(grid, list, p => p.partition, card, (kid, p) => fill_card(kid, p, now));
			const r = rates.get('all');
			graph.set([...r.at], [...r.values]);
		},
	};
}

/* --- one ------------------------------------------------------------------------------------ */

const offsets = p => [
	['next', text.count(p.next_offset)], ['log start', text.count(p.log_start)], ['log end', text.count(p.log_end)],
	['began at', text.count(p.start_offset)], ['replay ends at', text.count(p.target_offset)],
	['lag', text.count(p.lag)], ['gaps', `${text.count(p.gaps)} (${text.count(p.gap_offsets)} offsets)`],
];

const worker = (p, now) => [
	['pid', p.pid ? String(p.pid) : text.none], ['phase', p.phase || text.none],
	['problems', p.problems || 'none', p.problems ? 'bad' : null],
	['heartbeat', text.ago(p.heartbeat_age_ms)],
	['restarts', text.count(p.restarts), p.restarts ? 'warn' : null],
	['last death', death(p, now) || 'none since it was assigned'],
	['quarantine', text.plural(p.quarantine_listed, 'offset')],
	['generation', p.generation], ['lease', p.lease_ms > 0 ? `${text.duration(p.lease_ms)} left` : 'over', p.state === 'ready' && p.lease_ms <= 0 ? 'bad' : null],
	['changed', p.changed_at_ms ? text.ago(now - p.changed_at_ms) : text.none],
];

const store = p => [
	['in use', text.bytes(p.store_bytes)], ['at most', text.bytes(p.map_bytes)],
	['streams', text.count(p.streams_stored)], ['swept', text.count(p.swept)],
	['last commit', text.duration(p.commit_ns_last / 1e6)], ['longest commit', text.duration(p.commit_ns_max / 1e6)],
	['commits', text.count(p.commits)],
	['readers', text.count(p.readers)], ['oldest reader', p.reader_lag ? `pid ${p.reader_pid}, ${text.count(p.reader_lag)} behind` : 'none behind', p.reader_lag > 1000 ? 'warn' : null],
];

const records = p => [
	['seen', text.count(p.records)], ['counted', text.count(p.applied)], ['bytes', text.bytes(p.bytes)],
	['replayed', text.count(p.replayed)],
	...Object.entries(p.skipped ?? {}).filter(([, n]) => n).map(([why, n]) => [why.replaceAll('_', ' '), text.count(n)]),
	['policy overflow', text.count(p.policy_overflow)],
];

const asked = p => [
	['known', text.count(p.asked_known)], ['new', text.count(p.asked_new)], ['rejected', text.count(p.asked_rejected), p.asked_rejected ? 'warn' : null],
	['failed', text.count(p.asked_failed), p.asked_failed ? 'warn' : null], ['touched', text.count(p.touched)], ['rated keys', text.count(p.rated)],
	['outbox', text.count(p.outbox)], ['sent', text.count(p.sent)], ['confirmed', text.count(p.confirmed)], ['producers given up', text.count(p.send_errors), p.send_errors ? 'warn' : null],
];

const trail = () => table([['when'], ['from'], ['to'], ['why', 'wide'], ['generation', 'right minor']]);

function step(e)
{
	const from = mark(), to = mark(), when = h('td.number'), why = h('td.wide'), generation = h('td.number.right.minor');
	return { node: h('tr', {}, when, h('td', {}, from.node), h('td', {}, to.node), why, generation), from, to, when, why, generation };
}

function fill_step(kid, e, now)
{
	put(kid.when, text.moment(e.time_ms, now));
	kid.from.set(...standing({ state: e.from, ready: true }));
	kid.to.set(...standing({ state: e.to, ready: true }));
	put(kid.why, [e.why, e.death_detail].filter(Boolean).join(', '));
	put(kid.generation, e.generation == null || e.generation === '0' ? text.none : String(e.generation));
}

export function partition(n)
{
	const path = `/api/v1/partitions/${encodeURIComponent(n)}`;
	const state = mark(), line = h('span.dim'), progress = bar('replay'), warn = notice(), summary = facts();
	const graph = plot({ label: 'records per second, since this page was opened', format: text.short, height: 120, whole: true });
	const groups = [['Worker', worker], ['Offsets', offsets], ['Records', records], ['Store', store], ['Asked and written', asked]]
		.map(([title, rows]) => { const f = facts(); return { rows, facts: f, node: panel(title, f.node) }; });
	const changes = trail(), no_changes = h('p.dim'), skipped = h('div.panels', {}, groups.map(g => g.node));
	summary.node.classList.add('strip');
	const content = h('div', {}, h('div.progress', {}, progress.node), summary.node, h('section.panel.slim', {}, graph.node), skipped,
		panel('Changes of state', no_changes, changes.node));
	const node = h('div', {}, h('h1', {}, h('a.up', { href: '#/', title: 'All partitions (u)' }, 'Partitions'), ` / ${n} `, state.node, line), warn.node, content);
	return {
		title: `Partition ${n}`, node, up: '#/',
		paths: () => [path],
		update(now) {
			const got = entry(path), p = got.json;
			warn.set(trouble(got, 'read'));
			show(content, Boolean(p));
			if (!p)
				return;
			state.set(...standing(p));
			put(line, doing(p));
			show(progress.node.parentNode, p.state === 'replaying');
			progress.set(p.progress ?? 0, 'busy');
			summary.set([
				['records/s', text.count(p.records_per_sec)], ['lag', text.count(p.lag)],
				['record lag', text.duration(p.record_lag_ms)],
				p.state === 'replaying' && ['replayed', text.percent(p.progress)], p.state === 'replaying' && ['to go', text.duration(p.eta_ms)],
				p.replay_started_at_ms && p.ready_at_ms >= p.replay_started_at_ms && ['replay took', text.duration(p.ready_at_ms - p.replay_started_at_ms)],
				['streams', text.count(p.streams_stored)], ['store', text.bytes(p.store_bytes)],
			]);
			remember(Number(n), got.at, p.records_per_sec ?? null);
			const r = rates.get(Number(n));
			graph.set([...r.at], [...r.values]);
			for (const g of groups)
				g.facts.set(g.rows(p, now));
			const list = (p.history ?? []).map((e, i) => ({ ...e, i })).sort((a, b) => b.time_ms - a.time_ms || b.i - a.i);
			show(changes.node, list.length > 0);
			put(no_changes, list.length ? '' : p.history ? 'None since tallyd started.' : `This server keeps no list of them; the last was ${p.changed_at_ms ? text.ago(now - p.changed_at_ms) : 'not seen'}.`);
			keyed(changes.body, list, e => `${e.time_ms} ${e.i}`, step, (kid, e) => fill_step(kid, e, now));
		},
	};
}
