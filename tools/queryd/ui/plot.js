/*
 * plot.js - uPlot in this page's colours, with a line of words for what the cursor is on.
 */
/* global uPlot */
import { h, put } from './parts.js';
import * as text from './text.js';

const probe = h('span.probe', { 'aria-hidden': 'true' });

/* A colour of the style sheet, as a canvas takes it. */
function colour(name)
{
	if (!probe.isConnected)
		document.body.append(probe);
	probe.style.color = `var(--${name})`;
	return getComputedStyle(probe).color;
}

const axis = (values, size) => ({
	stroke: () => colour('dim'),
	grid: { stroke: () => colour('line'), width: 1 },
	ticks: { show: false },
	font: '11px ui-monospace, "DejaVu Sans Mono", monospace',
	size, gap: 6, values,
});

const seconds = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const twos = Array.from({ length: 60 }, (_, i) => 2 ** i);

/*
 * plot({ label, format, bars, binary }): { node, set(seconds, values) }.  Times are Unix seconds;
 * a value of null is a gap; binary: the scale goes by powers of two.
 */
export function plot({ label, format, bars = false, binary = false, height = 150, whole = false })
{
	const place = h('div.plot', { role: 'img' }), words = h('span.reading'), node = h('figure', {}, h('figcaption', {}, h('span', {}, label), words), place);
	let drawn = null, data = [[], []], resting = '', width = 0;

	const options = () => ({
		width, height, legend: { show: false },
		cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
		padding: [8, 18, 0, 0],
		scales: { x: { time: true }, y: { range: (u, min, max) => [0, Math.max(max * 1.08, whole ? 4 : 1)] } },
		axes: [
			{ ...axis((u, splits) => splits.map(s => text.clock(s * 1000).slice(0, splits[1] % 60 || splits[0] % 60 ? 8 : 5)), 24), space: 84, incrs: seconds },
			{ ...axis((u, splits) => splits.map(v => whole && !Number.isInteger(v) ? '' : format(v)), 76), space: 34, incrs: binary ? twos : undefined },
		],
		series: [{}, {
			stroke: () => colour('accent'), width: bars ? 0 : 1.5,
			fill: bars ? () => colour('accent') : () => colour('accent-faint'),
			paths: bars ? uPlot.paths.bars({ size: [0.8, 14], align: 0 }) : undefined,
			points: { show: false }, spanGaps: false,
		}],
		hooks: { setCursor: [u => say(u.cursor.idx)] },
	});

	function say(i)
	{
		const v = i == null ? null : data[1][i];
		put(words, v == null ? resting : `${text.clock(data[0][i] * 1000).slice(0, bars ? 5 : 8)}  ${format(v)}`);
	}

	function draw()
	{
		drawn?.destroy();
		drawn = null;
		if (width > 40 && data[0].length > 1 && typeof uPlot === 'function')
			drawn = new uPlot(options(), data, place);
	}

	new ResizeObserver(([box]) => {
		const now = Math.floor(box.contentRect.width);
		if (now === width)
			return;
		width = now;
		if (drawn)
			drawn.setSize({ width, height });
		else
			draw();
	}).observe(place);
	redraws.push(new WeakRef(node));
	node.redraw = draw;

	return { node, set(seconds, values) {
		const known = values.filter(v => v !== null);
		data = [seconds, values];
		resting = known.length ? `now ${format(known.at(-1))}   most ${format(Math.max(...known))}` : 'nothing yet';
		place.setAttribute('aria-label', `${label}: ${resting}`);
		if (drawn)
			drawn.setData(data);
		else
			draw();
		say(drawn?.cursor.idx);
	} };
}

const redraws = [];

/* Colours have changed. */
export function repaint()
{
	for (const ref of redraws.splice(0)) {
		const node = ref.deref();
		if (node)
			redraws.push(ref);
		if (node?.isConnected)
			node.redraw();
	}
}

/* Numbers of the last minutes, as this page has seen them. */
export function ring(most = 180)
{
	const at = [], values = [];
	return { at, values, add(ms, value) {
		if (at.length && ms / 1000 <= at.at(-1))
			return;
		/* The tab was hidden, or nobody answered. */
		if (at.length && ms / 1000 - at.at(-1) > 15) {
			at.push(at.at(-1) + 1);
			values.push(null);
		}
		at.push(ms / 1000);
		values.push(value);
		while (at.length > most) {
			at.shift();
			values.shift();
		}
	} };
}
