/*
 * check.mjs - a dashboard against Grafana's own schema: node check.mjs NODE_MODULES DASHBOARD WORK_DIR
 *
 *	dashboard, panels, options, queries --as literals of a type--> TypeScript: a key or word that is unknown, a lack
 *
 * The types are those that Grafana publishes as @grafana/schema, of two of its versions.  They are generated from what
 * Grafana itself checks dashboards by; what a panel looks like they do not say.  One line for each finding; exit 1.
 */
import fs from 'node:fs';
import path from 'node:path';
import {createRequire} from 'node:module';

const [modules, file, work] = process.argv.slice(2);
const ts = createRequire(path.join(modules, 'x.js'))('typescript');

const versions = [
	{name: '10', at: 'grafana-schema-10/dist/esm/raw', type: kind => `${kind}_types.gen`},
	{name: '13', at: '@grafana/schema/dist/types/raw', type: () => 'types.gen'},
];
const panels = {stat: 'Stat', table: 'Table', bargauge: 'BarGauge', timeseries: 'TimeSeries'};

/* Words instead of enums, as in JSON; of options a part is enough. */
const helpers = `
type Plain<T> = T extends string ? \`\${T}\` : T extends (infer U)[] ? Plain<U>[] : T extends object ? {[K in keyof T]: Plain<T[K]>} : T;
type Part<T> = T extends string ? \`\${T}\` : T extends (infer U)[] ? Part<U>[] : T extends object ? {[K in keyof T]?: Part<T[K]>} : T;
`;

function source(dashboard, version)
{
	const from = (dir, kind) => JSON.stringify(path.resolve(modules, version.at, dir, 'x', `${version.type(kind)}.js`));
	const lines = [`import type {Dashboard, Panel, RowPanel} from ${from('dashboard', 'dashboard')};`];
	for (const [type, name] of Object.entries(panels))
		lines.push(`import type * as ${name} from ${from(`composable/${type}/panelcfg`, `${name}PanelCfg`)};`);
	/* Later versions have the data source's in a package of its own. */
	if (version.name === '10')
		lines.push(`import type {PrometheusDataQuery as Query} from ${from('composable/prometheus/dataquery', 'PrometheusDataQuery')};`);
	lines.push(...helpers.split('\n'));
	const at = [];
	const say = (what, type, value) => {
		at[lines.length] = what;
		lines.push(`export const x${lines.length}: ${type} = ${JSON.stringify(value)};`);
	};
	say('the dashboard', 'Plain<Dashboard>', {...dashboard, panels: []});
	for (const panel of dashboard.panels) {
		const what = `panel "${panel.title}"`, name = panels[panel.type];
		if (panel.type === 'row') {
			say(what, 'Plain<RowPanel>', panel);
			continue;
		}
		say(what, 'Plain<Panel>', panel);
		say(`${what}, type`, Object.keys(panels).map(type => `'${type}'`).join(' | '), panel.type);
		if (name)
			say(`${what}, options`, `Part<${name}.Options>`, panel.options);
		if (name && panel.fieldConfig.defaults.custom)
			say(`${what}, fieldConfig.defaults.custom`, `Part<${name}.FieldConfig>`, panel.fieldConfig.defaults.custom);
		for (const query of version.name === '10' ? panel.targets : [])
			say(`${what}, query ${query.refId}`, 'Plain<Query>', query);
	}
	return {text: lines.join('\n'), at};
}

function findings(dashboard, version)
{
	const {text, at} = source(dashboard, version);
	const name = path.resolve(work, `dashboard-${version.name}.ts`);
	fs.writeFileSync(name, text);
	const program = ts.createProgram([name], {noEmit: true, strict: true, skipLibCheck: true, types: [],
		module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, target: ts.ScriptTarget.ES2022});
	return ts.getPreEmitDiagnostics(program).map(found => {
		const line = found.file && ts.getLineAndCharacterOfPosition(found.file, found.start).line;
		return `Grafana ${version.name}: ${at[line] ?? `line ${line}`}: ` +
			ts.flattenDiagnosticMessageText(found.messageText, ' ').slice(0, 300);
	});
}

const dashboard = JSON.parse(fs.readFileSync(file));
const found = versions.flatMap(version => findings(dashboard, version));
found.forEach(line => console.log(line));
process.exitCode = found.length ? 1 : 0;
