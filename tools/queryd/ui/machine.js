/*
 * machine.js - the page of limits with what came of the last reload, and that of processes.
 */
import { entry } from './net.js';
import { facts, h, keyed, mark, notice, panel, put, show, table, trouble } from './parts.js';
import { rows } from './tenants.js';
import * as text from './text.js';

const NEAREST = '/api/v1/tenants?sort=headroom&limit=10';

const outcomes = {
	ok: ['ready', 'good', 'taken'],
	none: ['pending', 'idle', 'no file: the default holds for all'],
	refused: ['failed', 'bad', 'REFUSED: what held before holds on'],
};

export function limits()
{
	const warn = notice(), outcome = mark(), when = h('span.dim'), why = h('pre.error', { hidden: true }), rest = facts(), near = rows(), near_warn = notice(), defaults = facts();
	const node = h('div', {}, h('h1', {}, 'Limits'), warn.node,
		h('div.panels.two', {}, panel('Last reload', h('p.outcome', {}, outcome.node, when), why, rest.node), panel('For tenants without an entry', defaults.node)),
		panel('Nearest to their limit', near_warn.node, near.node, h('p', {}, h('a', { href: '#/tenants' }, 'All tenants'))));
	return {
		title: 'Limits', node,
		paths: () => [NEAREST],
		update(now) {
			const got = entry('/api/v1/instance'), i = got.json;
			warn.set(trouble(got, 'read'));
			if (i) {
				outcome.set(...outcomes[i.limits_state] ?? ['free', 'idle', i.limits_state || 'not known yet']);
				put(when, i.limits_at_ms ? ` ${text.ago(now - i.limits_at_ms)}, at ${text.moment(i.limits_at_ms, now)}` : '');
				put(why, i.limits_error);
				show(why, Boolean(i.limits_error));
				rest.set([
					['in force since', i.limits_loaded_at_ms ? `${text.moment(i.limits_loaded_at_ms, now)}, ${text.ago(now - i.limits_loaded_at_ms)}` : text.none],
					['version', i.limits_version], ['tenants with an entry', text.count(i.limits_tenants)],
					['refused since tallyd started', text.count(i.limits_refused), i.limits_refused ? 'warn' : null],
				]);
				defaults.set([
					['active streams', i.limits_default == null ? 'not known' : i.limits_default === 0 ? 'no limit' : text.count(i.limits_default)],
					['dry run', i.limits_dry_run ? 'yes: nothing is rejected' : 'no', i.limits_dry_run ? 'warn' : null],
					['window', text.duration(i.window_minutes * 60000)],
				]);
			}
			const nearest = entry(NEAREST);
			near_warn.set(trouble(nearest, 'read'));
			if (nearest.json)
				near.set(nearest.json.tenants);
		},
	};
}

/* --- processes ------------------------------------------------------------------------------ */

const PROCESSES = '/api/v1/processes';
const roles = { supervisor: 'tallyd', query: 'tally-queryd', worker: 'tally-worker' };

export function processes()
{
	const warn = notice(), unseen = notice('idle'), strip = facts(), last = new Map();
	const t = table([['process'], ['partition', 'right minor'], ['pid', 'right'], ['RSS', 'right'], ['private', 'right minor'], ['CPU', 'right'], ['CPU time', 'right minor'], ['threads', 'right minor'], ['up', 'right'], ['restarts', 'right minor']]);
	const note = h('p.dim', {}, 'CPU is of one processor, since the last look. Private is RSS without pages of files: a store is shared by all who read it.');
	strip.node.classList.add('strip');
	const node = h('div', {}, h('h1', {}, 'Processes'), warn.node, strip.node, unseen.node, h('section.panel', {}, t.node), note);
	let clock = 0;

	/* Of one processor since the last answer; over its life when there is none. */
	function busy(p, now_ms)
	{
		const before = last.get(p.pid);
		if (!p.seen)
			return null;
		if (before && now_ms - before.at < 500)
			return before.share;
		const share = before ? (p.cpu_ms - before.cpu) / (now_ms - before.at) : p.age_ms ? p.cpu_ms / p.age_ms : 0;
		last.set(p.pid, { at: now_ms, cpu: p.cpu_ms, share: Math.max(0, share) });
		return Math.max(0, share);
	}

	return {
		title: 'Processes', node,
		paths: () => [PROCESSES, '/api/v1/partitions'],
		update(now) {
			const got = entry(PROCESSES), i = entry('/api/v1/instance').json, parts = entry('/api/v1/partitions').json?.partitions ?? [];
			warn.set(trouble(got, 'read'));
			if (!got.json)
				return;
			const list = got.json.processes, sum = key => list.reduce((s, p) => s + (p[key] ?? 0), 0);
			const shares = new Map(list.map(p => [p.pid, busy(p, got.json.clock_ms)]));
			const total = [...shares.values()].reduce((s, v) => s + (v ?? 0), 0);
			const restarts = p => p.role === 'query' ? i?.query_restarts : p.role === 'worker' ? parts.find(q => q.partition === p.partition)?.restarts : null;
			clock = got.json.clock_ms;
			for (const pid of last.keys())
				if (!shares.has(pid))
					last.delete(pid);
			strip.set([
				['processes', text.count(list.length)], ['CPU', text.percent(total)],
				['private memory', text.bytes(list.reduce((s, p) => s + Math.max(0, (p.rss_bytes ?? 0) - (p.shared_bytes ?? 0)), 0))],
				['stores', text.bytes(parts.reduce((s, p) => s + (p.store_bytes ?? 0), 0))],
				['threads', text.count(sum('threads'))],
				i && ['tallyd heartbeat', text.ago(i.heartbeat_age_ms), i.alive ? null : 'bad'],
				i && ['query processes', `${text.count(i.query_alive)} of ${text.count(i.query_processes)}`, i.query_alive < i.query_processes ? 'bad' : null],
				i?.query_death && ['query died last', `${i.query_death}, ${text.ago(now - i.query_died_at_ms)}`, 'warn'],
				i && ['rebalances', text.count(i.rebalances)],
			]);
			unseen.set(list.some(p => !p.seen) ? `${text.plural(list.filter(p => !p.seen).length, 'process', 'processes')} cannot be seen from here: ended just now, or hidden by /proc (hidepid, ProtectProc=).` : '');
			keyed(t.body, list, p => `${p.role} ${p.partition ?? ''} ${p.pid}`, p => {
				const cells = Array.from({ length: 9 }, (_, i) => h(`td.number.right${[0, 3, 5, 6, 8].includes(i) ? '.minor' : ''}`));
				const who = h('td.process', { 'data-partition': p.partition ?? null }, p.role === 'worker' ? h('a.item.cover', { href: `#/partitions/${p.partition}` }, roles[p.role]) : roles[p.role] ?? p.role);
				return { node: h('tr', {}, who, ...cells), cells };
			}, (kid, p) => {
				const n = restarts(p);
				[
					p.partition ?? '', String(p.pid), text.bytes(p.rss_bytes),
					p.seen ? text.bytes(Math.max(0, p.rss_bytes - p.shared_bytes)) : text.none,
					text.percent(shares.get(p.pid)), text.duration(p.cpu_ms), text.count(p.threads), text.duration(p.age_ms), n == null ? '' : text.count(n),
				].forEach((v, at) => put(kid.cells[at], String(v)));
			});
		},
	};
}
