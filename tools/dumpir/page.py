"""The page of ``dumpir --html``: markup, style and script in one text without network. `@DATA@` stands for the data."""

# ruff: noqa: E501  (a page's lines)

from __future__ import annotations

PAGE = r"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>@NAME@ (dumpir)</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
:root{--line:#d8dce2;--dim:#667085;--mark:#fff3c4;--pick:#cfe3ff;--bar:#7aa7e0}
body{margin:0;font:13px/1.4 system-ui,sans-serif;color:#1d2430;height:100vh;display:flex;flex-direction:column}
header{display:flex;gap:14px;align-items:center;padding:6px 12px;border-bottom:1px solid var(--line);flex-wrap:wrap}
header b{font-size:15px}header button,select,input{font:inherit;padding:2px 8px}
button.on{background:var(--pick)}main{flex:1;display:flex;min-height:0}
section{overflow:auto;padding:6px 8px;border-right:1px solid var(--line)}
#tree{width:22%}#source{width:33%}#eqns{flex:1;border:0}
pre,code,.m{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace}
.row{white-space:pre;cursor:pointer;padding:0 4px}.row:hover{background:#f2f4f7}
#tree .row{padding-left:22px}.c{color:#2e9e6b;display:inline-block;width:4ch;text-align:right;margin-right:1ch;user-select:none}
.row.line{background:var(--mark)}.row.pick{background:var(--pick)}.row.in{border-left:3px solid #2e9e6b}.row.out{border-left:3px solid #d9762b}
.no{color:var(--dim);display:inline-block;width:4ch;text-align:right;margin-right:1ch;user-select:none}
.k{color:#8a3ffc}details{margin-left:10px}summary{cursor:pointer}
table{border-collapse:collapse;margin:6px 0 16px}td,th{padding:2px 10px 2px 0;text-align:left;vertical-align:top;border-bottom:1px solid #eef0f3}
.bar{background:var(--bar);height:12px;display:inline-block;vertical-align:middle}.bar.top{background:#d9762b}
#lineage{border-top:1px solid var(--line);max-height:32vh;overflow:auto;padding:6px 12px}#lineage h4{margin:4px 0}
.wide{flex:1;display:none;border:0}
#wide.graph{padding:0;position:relative;overflow:hidden}#wide svg{width:100%;height:100%;display:block;cursor:grab;background:#fbfcfd}
#bar{position:absolute;left:10px;top:8px;background:#ffffffd9;padding:2px 6px;border:1px solid var(--line);z-index:1}
svg text{font:11px ui-monospace,Menlo,Consolas,monospace;pointer-events:none}svg .node{cursor:pointer;stroke:#8b95a5}svg .node.result{stroke-width:2.5}
svg text.type{fill:var(--dim);font-size:10px}svg .edge{fill:none;stroke:#b6bec9;stroke-width:1;vector-effect:non-scaling-stroke}svg .dimmed{opacity:.13}svg .edge.up{stroke:#2e9e6b;stroke-width:2}svg .edge.down{stroke:#d9762b;stroke-width:2}
svg .node.up{stroke:#2e9e6b;stroke-width:2}svg .node.down{stroke:#d9762b;stroke-width:2}svg .node.pick{stroke:#1d5fd1;stroke-width:3}svg .node.same{stroke:#b58900;stroke-width:2.5}.dim{color:var(--dim)}
</style></head><body>
<header><b id="title"></b><span id="tabs"></span><span id="of"></span>
<input id="find" placeholder="find in equations" size="18"><span class="dim" id="note"></span></header>
<main><section id="tree"></section><section id="source"></section><section id="eqns"></section><section class="wide" id="wide"></section></main>
<div id="lineage"></div><svg id="drawn" style="display:none"></svg>
<script id="data" type="application/json">@DATA@</script>
<script>
"use strict";
const D=JSON.parse(document.getElementById("data").textContent),$=i=>document.getElementById(i);
const el=(tag,text,cls)=>{const e=document.createElement(tag);if(text!=null)e.textContent=text;if(cls)e.className=cls;return e};
let stage=Math.max(0,D.stages.length-1),line=null,pick=null,file=0;
const short=f=>f.split("/").pop(),at=s=>s<0?"":short(D.files[D.sources[s][0]].name)+":"+D.sources[s][1];
const size=n=>n<1024?n+" B":n<1048576?(n/1024).toFixed(1)+" KiB":(n/1048576).toFixed(2)+" MiB";
const time=s=>s>=1?s.toFixed(2)+" s":(s*1e3).toFixed(1)+" ms";
const sourcesOf=e=>e.p?[e.s,...e.p]:[e.s];
const isOf=(e,l)=>sourcesOf(e).some(s=>s>=0&&D.sources[s][0]===l[0]&&D.sources[s][1]===l[1]);
const up=D.stages.map((st,k)=>{const u=st.eqns.map(()=>[]);if(k)D.stages[k-1].eqns.forEach((e,i)=>(e.d||[]).forEach(j=>u[j].push(i)));return u});
const uses=D.stages.map(st=>{const u=st.eqns.map(()=>[]);st.eqns.forEach((e,j)=>e.i.forEach(i=>u[i].push(j)));return u});

function tree(){const root=$("tree"),by=new Map();root.replaceChildren(el("b","user frames"));
 D.stages[stage].eqns.forEach(e=>{if(e.s<0)return;const[f,n,fn,sc]=D.sources[e.s],key=f+" "+(sc?sc+"/":"")+fn;
  if(!by.has(key))by.set(key,{f,fn:(sc?sc+"/":"")+fn,lines:new Map()});const g=by.get(key);g.lines.set(n,(g.lines.get(n)||0)+1)});
 const files=new Map();by.forEach(g=>{if(!files.has(g.f))files.set(g.f,[]);files.get(g.f).push(g)});
 files.forEach((gs,f)=>{const d=el("details");d.open=true;d.append(el("summary",short(D.files[f].name)));
  gs.forEach(g=>{const e=el("details"),total=[...g.lines.values()].reduce((a,b)=>a+b,0);e.open=gs.length<12;e.append(el("summary",g.fn+"  ("+total+")"));
   [...g.lines].sort((a,b)=>a[0]-b[0]).forEach(([n,c])=>{const r=el("div",null,"row");r.append("line "+n,el("span",c,"c"));if(line&&line[0]===f&&line[1]===n)r.classList.add("line");
    r.onclick=()=>choose([f,n]);e.append(r)});d.append(e)});root.append(d)});
 const a=el("details");a.append(el("summary","arguments ("+D.arguments.length+")"));D.arguments.forEach(x=>a.append(el("div",x[0]+"  "+x[1]+"  "+x[2],"row m")));root.append(a);
 const r=el("details");r.append(el("summary","results ("+D.results.length+")"));D.results.forEach(x=>r.append(el("div",x[0]+"  "+x[1],"row m")));root.append(r)}

function source(){const root=$("source");root.replaceChildren();if(!D.files.length){root.append(el("i","no source"));return}
 if(D.files.length>1){const s=el("select");D.files.forEach((f,i)=>{const o=el("option",short(f.name));o.value=i;s.append(o)});s.value=file;s.onchange=()=>{file=+s.value;source()};root.append(s)}
 const counts=new Map();D.stages[stage].eqns.forEach(e=>new Set(sourcesOf(e)).forEach(s=>{if(s>=0&&D.sources[s][0]===file){const n=D.sources[s][1];counts.set(n,(counts.get(n)||0)+1)}}));
 D.files[file].rows.forEach((t,i)=>{const r=el("div",null,"row m"),n=i+1;r.append(el("span",n,"no"),el("span",counts.get(n)||"","c"),t||" ");
  if(counts.has(n)){r.onclick=()=>choose([file,n])}
  if(line&&line[0]===file&&line[1]===n){r.classList.add("line");setTimeout(()=>r.scrollIntoView({block:"nearest"}))}root.append(r)})}

function eqns(){const root=$("eqns"),st=D.stages[stage],word=$("find").value.toLowerCase();root.replaceChildren();const part=document.createDocumentFragment();let first=null,n=0;
 const ins=pick!=null?new Set(st.eqns[pick].i):new Set(),outs=pick!=null?new Set(uses[stage][pick]):new Set();
 st.eqns.forEach((e,i)=>{if(word&&!e.t.toLowerCase().includes(word))return;n++;const r=el("div",null,"row m");r.append(el("span",i,"no"),e.t);
  if(e.k)r.append(el("span","  "+e.k.join(" "),"k"));if(e.s>=0)r.append(el("span","  "+at(e.s),"dim"));
  if(line&&isOf(e,line)){r.classList.add("line");first=first||r}if(i===pick){r.classList.add("pick");first=r}if(ins.has(i))r.classList.add("in");if(outs.has(i))r.classList.add("out");
  r.onclick=()=>{pick=i;if(e.s>=0){line=[D.sources[e.s][0],D.sources[e.s][1]];file=line[0]}draw()};part.append(r)});
 root.append(part);$("note").textContent=n+" of "+st.eqns.length+" equations";if(first)setTimeout(()=>first.scrollIntoView({block:"nearest"}))}

function lineage(){const root=$("lineage");root.replaceChildren();if(pick==null){root.append(el("span","Choose a line or an equation: its lineage through the passes is shown here. Green: what it reads; orange: what reads it.","dim"));return}
 const chain=[];let now=new Set([pick]);for(let k=stage-1;k>=0;k--){const next=new Set();now.forEach(j=>up[k+1][j].forEach(i=>next.add(i)));chain.unshift([k,next]);now=next}
 chain.push([stage,new Set([pick])]);now=new Set([pick]);for(let k=stage;k<D.stages.length-1;k++){const next=new Set();now.forEach(i=>(D.stages[k].eqns[i].d||[]).forEach(j=>next.add(j)));chain.push([k+1,next]);now=next}
 chain.forEach(([k,set])=>{const h=el("h4",D.stages[k].name+(set.size?"":": nothing"));if(k===stage)h.append(" (chosen)");root.append(h);
  [...set].slice(0,8).forEach(i=>{const r=el("div",D.stages[k].eqns[i].t,"row m");r.onclick=()=>{stage=k;pick=i;view=null;draw()};root.append(r)});if(set.size>8)root.append(el("div","... "+(set.size-8)+" more","dim"))});
 const last=chain[chain.length-1];const ks=new Set();last[1].forEach(i=>(D.stages[last[0]].eqns[i].k||[]).forEach(k=>ks.add(k)));
 ks.forEach(k=>{const f=D.kernels.find(x=>x.symbol===k);root.append(el("div","kernel "+k+": "+(f?f.reason:""),"m k"))})}

function table(head,rows,click){const t=el("table"),h=el("tr");head.forEach(x=>h.append(el("th",x)));t.append(h);rows.forEach((r,i)=>{const tr=el("tr");r.forEach(x=>{const td=el("td");x instanceof Node?td.append(x):td.textContent=x;tr.append(td)});if(click){tr.style.cursor="pointer";tr.onclick=()=>click(i)}t.append(tr)});return t}
function bar(x,max,top){const b=el("span",null,"bar"+(top?" top":""));b.style.width=Math.max(1,300*x/(max||1))+"px";return b}
const toLine=s=>{if(s>=0){choose([D.sources[s][0],D.sources[s][1]]);show("program")}};
// The graph: equations in layers by their longest way from the arguments, within a layer near what they read and what reads them.
const W=140,H=34,GX=16,GY=24,COLORS={elementwise:"#e8f1fb",reductions:"#e6f4ea",contraction:"#fdebd3",structural:"#f1f2f4",indexing:"#f3e8fb",fusion:"#d9e8ff",loop:"#ffe0e0"};
let view=null,mode="whole",laid=null;
function reach(k,start,next){const seen=new Set(),todo=[...start];while(todo.length){for(const j of next(todo.pop()))if(!seen.has(j)){seen.add(j);todo.push(j)}}return seen}
const before=k=>i=>D.stages[k].eqns[i].i,after=k=>i=>uses[k][i];
function near(k,i,n){const seen=new Set([i]);let now=[i];for(let d=0;d<n;d++){const next=[];for(const j of now)for(const x of[...before(k)(j),...after(k)(j)])if(!seen.has(x)){seen.add(x);next.push(x)}now=next}return seen}
function shownOf(k){const all=D.stages[k].eqns.map((_,i)=>i);if(pick==null||mode==="whole")return all;
 const set=mode==="near"?near(k,pick,3):new Set([pick,...reach(k,[pick],before(k)),...reach(k,[pick],after(k))]);return all.filter(i=>set.has(i))}
function layout(k){const ids=shownOf(k),key=k+" "+mode+(mode==="whole"?"":" "+pick);if(laid&&laid.key===key)return laid;const has=new Set(ids),E=D.stages[k].eqns,rank=new Map(),ins=new Map(),outs=new Map();
 ids.forEach(i=>{const g=E[i].i.filter(j=>has.has(j));ins.set(i,g);outs.set(i,uses[k][i].filter(j=>has.has(j)));rank.set(i,g.length?1+Math.max(...g.map(j=>rank.get(j))):0)});
 [...ids].reverse().forEach(i=>{const o=outs.get(i);if(o.length&&!ins.get(i).length)rank.set(i,Math.min(...o.map(j=>rank.get(j)))-1)});
 const rows=[];ids.forEach(i=>{const r=rank.get(i);(rows[r]=rows[r]||[]).push(i)});const x=new Map();
 for(let r=0;r<rows.length;r++){rows[r]=rows[r]||[];rows[r].forEach((i,n)=>x.set(i,(n-(rows[r].length-1)/2)*(W+GX)))}
 const place=(r,of)=>{const row=rows[r],want=new Map();row.forEach(i=>{const g=of.get(i);want.set(i,g.length?g.reduce((a,j)=>a+x.get(j),0)/g.length:x.get(i))});
  row.sort((a,b)=>want.get(a)-want.get(b)||a-b);let last=-Infinity,sum=0;row.forEach(i=>{last=Math.max(want.get(i),last+W+GX);x.set(i,last);sum+=want.get(i)-last});row.forEach(i=>x.set(i,x.get(i)+sum/row.length))};
 for(let n=0;n<3;n++){for(let r=1;r<rows.length;r++)place(r,ins);for(let r=rows.length-2;r>=0;r--)place(r,outs)}
 for(let r=1;r<rows.length;r++)place(r,ins);
 return laid={key,ids,x,y:new Map(ids.map(i=>[i,rank.get(i)*(H+GY)])),ins}}
function svg(tag,attrs,text){const e=document.createElementNS($("drawn").namespaceURI,tag);for(const a in attrs)e.setAttribute(a,attrs[a]);if(text!=null)e.textContent=text;return e}
function graph(r){const g=layout(stage),E=D.stages[stage].eqns,box=svg("svg",{id:"graph"}),edges=svg("g",{}),nodes=svg("g",{});
 const ups=pick==null?new Set():reach(stage,[pick],before(stage)),downs=pick==null?new Set():reach(stage,[pick],after(stage));const chosen=pick!=null;
 const near=(i,set)=>i===pick||set.has(i);
 g.ids.forEach(i=>g.ins.get(i).forEach(j=>{const x1=g.x.get(j),y1=g.y.get(j)+H,x2=g.x.get(i),y2=g.y.get(i),m=Math.min((y2-y1)/2,40);
  const c=chosen?(near(i,ups)&&near(j,ups)?" up":near(i,downs)&&near(j,downs)?" down":" dimmed"):"";edges.append(svg("path",{class:"edge"+c,d:`M${x1},${y1}C${x1},${y1+m} ${x2},${y2-m} ${x2},${y2}`}))}));
 g.ids.forEach(i=>{const e=E[i],x=g.x.get(i),y=g.y.get(i);let c="node";if(e.r)c+=" result";if(i===pick)c+=" pick";else if(ups.has(i))c+=" up";else if(downs.has(i))c+=" down";else if(line&&isOf(e,line))c+=" same";else if(chosen)c+=" dimmed";
  const n=svg("g",{"data-i":i}),b=svg("rect",{class:c,x:x-W/2,y,width:W,height:H,rx:e.k?2:7,fill:e.k?"#e9ddff":COLORS[e.f]||"#fff"});
  b.append(svg("title",{},e.t+(e.s>=0?"\n"+at(e.s):"")+(e.k?"\nkernel "+e.k.join(" "):"")));const dim=c.includes("dimmed")?"dimmed":"",cut=t=>t.length>21?t.slice(0,20)+"…":t,type=/:(\w+\[[^\]]*\])/.exec(e.t);
  n.append(b,svg("text",{x,y:y+14,"text-anchor":"middle",class:dim},cut(e.o+(e.n?" ("+e.n+")":""))),svg("text",{x,y:y+27,"text-anchor":"middle",class:"type "+dim},cut(type?type[1]:"")));
  n.onclick=v=>{v.stopPropagation();pick=i;if(e.s>=0){line=[D.sources[e.s][0],D.sources[e.s][1]];file=line[0]}draw()};nodes.append(n)});
 box.append(edges,nodes);const bar=el("div",null,"");bar.id="bar";const s=el("select");[["whole","whole program"],["lineage","lineage of the chosen"],["near","near the chosen"]].forEach(([v,t])=>{const o=el("option",t);o.value=v;s.append(o)});
 s.value=mode;s.onchange=()=>{mode=s.value;view=null;draw()};const fit=el("button","fit");const note=el("span","  "+g.ids.length+" equations"+(chosen?", the chosen reads from "+ups.size+" (green), "+downs.size+" read from it (orange)":"; choose one: what it reads from is green, what reads from it orange"),"dim");note.id="said";
 bar.append(s," ",fit,note);r.classList.add("graph");r.replaceChildren(bar,box);
 const size=()=>[r.clientWidth||1000,r.clientHeight||600],xs=g.ids.map(i=>g.x.get(i)),ys=g.ids.map(i=>g.y.get(i)),low=f=>f.reduce((a,b)=>Math.min(a,b),0),high=f=>f.reduce((a,b)=>Math.max(a,b),0);
 const x0=low(xs)-W,x1=high(xs)+W,y0=low(ys)-50,y1=high(ys)+60;const set=()=>box.setAttribute("viewBox",view.join(" "));
 const whole=()=>{const[w,h]=size(),f=Math.max((x1-x0)/w,(y1-y0)/h,1);view=[(x0+x1)/2-w*f/2,y0,w*f,h*f];set()};fit.onclick=whole;
 if(!view){const[w,h]=size();if(pick!=null&&g.x.has(pick))view=[g.x.get(pick)-w/2,g.y.get(pick)-h/2,w,h];else{const top=g.ids.filter(i=>g.y.get(i)<h-80),m=top.length?top.reduce((a,i)=>a+g.x.get(i),0)/top.length:0;view=[m-w/2,y0,w,h]}}set();
 box.onwheel=v=>{v.preventDefault();const[w,h]=size(),f=v.deltaY>0?1.2:1/1.2,px=view[0]+view[2]*v.offsetX/w,py=view[1]+view[3]*v.offsetY/h;view=[px-(px-view[0])*f,py-(py-view[1])*f,view[2]*f,view[3]*f];set()};
 box.onpointerdown=v=>{const from=[v.clientX,v.clientY],old=[...view],[w]=size(),f=view[2]/w;box.onpointermove=m=>{view=[old[0]-(m.clientX-from[0])*f,old[1]-(m.clientY-from[1])*f,old[2],old[3]];set()};window.onpointerup=()=>{box.onpointermove=null}}}
const WIDE={
 graph,
 kernels(r){r.append(el("h3","kernels by kind"),table(["kind","launches","codes","operations","moved","estimate","why this form"],D.kinds),el("h3","calls of quire's own kernels"));
  r.append(table(["kernel","line","why this form"],D.kernels.map(k=>[k.symbol,at(k.s),k.reason]),i=>toLine(D.kernels[i].s)));
  r.append(el("h3","what is no kernel, and why"),table(["primitive","line","reason"],D.refusals.map(k=>[k.primitive,at(k.s),k.text]),i=>toLine(D.refusals[i].s)))},
 rewrites(r){r.append(el("h3","passes"),table(["pass","ms","equations","rules"],D.rewrites.map(p=>[p.pass,(p.seconds*1e3).toFixed(1),p.before+" -> "+p.after,p.rules.map(x=>x[0]+" "+x[1]).join(", ")])));
  D.rewrites.forEach(p=>{if(!p.at.length)return;const by=new Map();p.at.forEach(([rule,s])=>{if(!by.has(rule))by.set(rule,[]);by.get(rule).push(s)});
   r.append(el("h3",p.pass+": rewrites by rule"));by.forEach((ss,rule)=>{const d=el("details");d.append(el("summary",rule+" ("+ss.length+")"));ss.forEach(s=>{const x=el("div",at(s)||"(no line)","row m");x.onclick=()=>toLine(s);d.append(x)});r.append(d)})})},
 memory(r){const m=D.memory;if(!m.length){r.append(el("i","nothing is held"));return}const max=Math.max(...m.map(x=>x[1]));
  r.append(el("h3","temporary memory while each step runs: "+size(D.peak.transient)+" in one block, "+size(D.peak.held)+" held at the peak, step "+D.peak.step));
  r.append(table(["step","held","","what","line"],m.map(x=>[x[0],size(x[1]),bar(x[1],max,x[0]===D.peak.step),x[2],x[3]])));
  r.append(el("h3","held at the peak"),table(["bytes","type","made by","line"],D.peak.values.map(v=>[size(v[0]),v[1]||"",v[2],v[3]])))},
 "compile time"(r){const s=Object.entries(D.seconds),max=Math.max(...s.map(x=>x[1]));r.append(el("h3","compile time by phase"),table(["phase","",""],s.map(([k,v])=>[k,time(v),bar(v,max)])))},
 devices(r){r.append(el("pre",D.spmd))}};
let tab="program";
const pages=()=>["program","graph"].includes(tab);
function show(name){tab=name;const p=name==="program";["tree","source","eqns"].forEach(i=>$(i).style.display=p?"":"none");$("lineage").style.display=pages()?"":"none";$("wide").style.display=p?"none":"block";
 $("wide").classList.remove("graph");if(!p){$("wide").replaceChildren();if(name!=="graph"){D.errors.forEach(e=>$("wide").append(el("pre",e)));WIDE[name]($("wide"))}}tabs();if(pages())draw()}
function tabs(){const t=$("tabs");t.replaceChildren();["program",...Object.keys(WIDE)].forEach(n=>{if(n==="devices"&&!D.spmd)return;const b=el("button",n,n===tab?"on":"");b.onclick=()=>show(n);t.append(b," ")});
 const o=$("of");o.replaceChildren();if(!pages())return;D.stages.forEach((s,k)=>{const b=el("button",s.name,k===stage?"on":"");b.onclick=()=>{stage=k;pick=null;view=null;draw()};o.append(b," ")})}
function choose(l){line=l;file=l[0];pick=D.stages[stage].eqns.findIndex(e=>isOf(e,l));if(pick<0)pick=null;draw()}
function draw(){tabs();lineage();if(tab==="graph"){graph($("wide"));return}tree();source();eqns()}
$("find").oninput=eqns;$("title").textContent=D.name+" for "+D.target;
// #graph, #graph:stage:equation: what the page begins with.
function begin(){const[first,named,number]=location.hash.slice(1).split(":");if(named){const k=D.stages.findIndex(s=>s.name===named);if(k>=0)stage=k}pick=number?+number:null;view=null;
 if(WIDE[first])show(first);else show("program")}
window.onhashchange=begin;begin();document.body.dataset.ready=Math.round(performance.now());
</script></body></html>
"""
