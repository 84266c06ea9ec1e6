/* SPDX-License-Identifier: Apache-2.0 */
/* Every vector of the specification (decision.md § 13) that our rules keep, word for word, and the
 * ones ADR 0004 changes, marked with the quirk. test_decide.c runs them over the oracle and over
 * the engine. */
#include "decide/vectors.h"

#define ROW(group) "1 a gpu p=1000000 group=" group ";"
#define FIVE(a)    ROW(a "0") ROW(a "1") ROW(a "2") ROW(a "3") ROW(a "4")
#define TWENTY_SIX FIVE("a") FIVE("b") FIVE("c") FIVE("d") FIVE("e") ROW("z")

static const struct fleet_text vectors[] = {
    /* 13.2 Phase 1 basic */
    {"3 of 4 idle", "4 gpu idle", "3 a gpu p=1000000", "B=3 B@a=3 U=0 P=0"},
    {"the cheaper quota", "cheap gpu speculative price=1; dear gpu speculative price=6",
     "1 a gpu p=1000000", "P:cheap U=0"},
    {"spot loses under a penalty",
     "spot gpu speculative price=1.8 prob=0.1; od gpu speculative price=6", "1 a gpu p=1 ib=26",
     "P:od"},
    {"idle before quota", "i-1 gpu idle price=6; s-1 gpu speculative price=1 prob=0.05",
     "1 a gpu p=1000000", "B:i-1 P=0"},
    {"already held", "2 gpu configured cluster=a", "2 a gpu p=1000000", "quiet"},
    {"two of five", "2 gpu idle", "5 a gpu p=1000000", "B=2 U=1 d0=gpu:24"},
    {"priority decides", "2 gpu idle", "2 low gpu p=0; 2 high gpu p=1000000",
     "B@high=2 B=2 U=1 row1=low"},
    {"groups of plain rows are one row (D9)", "50 cpu idle alloc=cpu:10,memory:40Gi",
     "0 a cpu p=1 agg=cpu:50,memory:200Gi min=cpu:1,memory:4Gi group=x;"
     "0 a cpu p=1 agg=cpu:50,memory:200Gi min=cpu:1,memory:4Gi group=y",
     "rows=1 B=10 U=0"},
    {"thirty rows of twenty-six groups", "5 gpu configured cluster=a; 25 gpu idle",
     TWENTY_SIX ROW("a0") ROW("a1") ROW("b0") ROW("c4"), "B=25 U=0 rows=1"},
    {"a short dimension", "1 cpu configured cluster=a type=c6a.4xlarge alloc=cpu:16,memory:32Gi",
     "0 a cpu p=1 type=c6a.4xlarge agg=cpu:10,memory:40Gi min=cpu:1,memory:4Gi",
     "B=0 P=0 U=1 d0=memory:8Gi"},
    {"one row of a hundred", "50 cpu idle alloc=cpu:10,memory:40Gi",
     "0 a cpu p=1 agg=cpu:100,memory:400Gi min=cpu:1,memory:4Gi", "B=10 U=0"},
    {"nothing at all", "", "1 a gpu p=1000000",
     "U=1 why0=NO_MATCHING_SUPPLY idle0=0 spec0=0 conf0=0"},
    {"one idle, two want it", "1 gpu idle", "1 a gpu p=2000000; 1 z gpu p=1000000",
     "B@a=1 cl0=1 U=1 why1=PRIORITY_STARVED idle1=1"},
    {"held by another", "1 gpu configured cluster=b prio=2000000", "1 a gpu p=1000000",
     "U=1 cl0=0 conf0=1 why0=PRIORITY_STARVED ready:a"},
    {"64 for training", "64 gpu idle", "64 train gpu p=1000000", "B=64 U=0 then quiet"},
    {"32 for training", "32 gpu idle", "64 train gpu p=1000000", "B=32 d0=gpu:256 E=0 X=1"},

    {"counts end at 256", "300 gpu configured cluster=b prio=2000000; 200 gpu idle",
     "200 c gpu p=9; 1 a gpu p=8", "conf1=256 idle1=200 spec1=0 cl1=0 E=0 ready:a+c"},

    /* 13.3 cycles */
    {"none and none", "", "", "quiet rows=0"},
    {"credited", "m1 cpu configured cluster=c1", "1 c1 cpu p=100", "quiet U=0"},
    {"the cheaper idle", "idle-1 cpu idle price=1; idle-2 cpu idle price=2", "1 c1 cpu p=100",
     "B:idle-1"},
    {"half served", "1 cpu idle", "2 c1 cpu p=100", "B=1 d0=cpu:4"},
    {"higher wins", "1 cpu idle", "1 c-low cpu p=100; 1 c-high cpu p=500", "B@c-high=1 B=1"},
    {"five rows, two each", "20 cpu idle",
     "2 c cpu p=100; 2 c cpu p=110; 2 c cpu p=120; 2 c cpu p=130; 2 c cpu p=140", "B=10 U=0"},

    /* 13.4 finders */
    {"cheapest", "a cpu idle price=1; b cpu idle price=2; c cpu idle price=3", "1 c1 cpu p=1",
     "B:a"},
    {"the cheapest is claimed already",
     "x cpu idle price=1; y cpu idle price=2; z cpu idle price=3", "1 c1 cpu p=50; 1 c2 cpu p=0",
     "B:x+y B@c1=1 B@c2=1"},
    {"all three", "3 cpu idle", "0 c1 cpu p=1 agg=cpu:10 min=cpu:4", "B=3"},
    {"zero demand", "3 cpu idle", "0 c1 cpu p=1 agg=- min=cpu:4", "quiet U=0"},
    {"a rack that holds both", "a0 cpu idle price=1 rack=a; 2 cpu idle price=2 rack=b",
     "2 c1 cpu p=1 same=rack", "B=2 B~b=2 dom0=b"},
    {"the rack with most", "1 cpu idle rack=a; 3 cpu idle rack=b", "5 c1 cpu p=1 same=rack",
     "B=3 B~b=3 d0=cpu:8"},
    {"spread over racks",
     "2 cpu idle rack=a price=1; 2 cpu idle rack=b price=2; 2 cpu idle rack=c price=3",
     "3 c1 cpu p=1 spread=rack:1:hard", "B=3 B~a=1 B~b=1 B~c=1"},
    {"credit by priority", "m cpu configured cluster=c1", "1 c1 cpu p=500; 1 c1 cpu p=100",
     "cl0=1 cl1=0 d1=cpu:4"},
    {"another type is not credited", "m cpu configured cluster=c1 type=m5.xlarge", "1 c1 cpu p=1",
     "cl0=0 R:m"},

    /* 13.5 Same */
    {"one zone for three", "3 gpu idle zone=zone-a; 3 gpu idle zone=zone-b",
     "3 x gpu p=1000000 same=zone", "B=3 B/zones=1"},
    {"the zone that holds four", "4 gpu idle zone=zone-a; 2 gpu idle zone=zone-b",
     "4 x gpu p=1000000 same=zone", "B=4 B~zone-a=4"},
    {"too big for a zone", "3 gpu idle zone=zone-a; 3 gpu idle zone=zone-b",
     "5 x gpu p=1000000 same=zone", "B=3 B/zones=1 d0=gpu:16 why0=TOPOLOGY_UNSATISFIABLE"},
    {"one dense machine", "8 gpu idle zone=zone-a alloc=gpu:800", "8 x gpu p=1000000 same=zone",
     "B=1 gang0=0"},
    {"two gangs, two zones", "3 gpu idle zone=zone-a; 3 gpu idle zone=zone-b",
     "3 x gpu p=2000000 same=zone group=A; 3 x gpu p=1000000 same=zone group=B",
     "B=6 dom0=zone-a dom1=zone-b then quiet"},
    {"stays", "3 gpu configured cluster=x zone=zone-a; 2 gpu idle zone=zone-b",
     "2 x gpu p=1 same=zone", "B=0 P=0 dom0=zone-a R=1"},
    {"moves once", "2 gpu configured cluster=x zone=zone-a; 3 gpu idle zone=zone-b",
     "5 x gpu p=1 same=zone", "B=3 B~zone-b=3 R=2 R~zone-a=2 then quiet then quiet then quiet"},
    {"keeps what is in the domain",
     "conf-a cpu configured cluster=x rack=rack-a; conf-b cpu configured cluster=x rack=rack-b;"
     "2 cpu idle rack=rack-b",
     "3 x cpu p=1 same=rack", "dom0=rack-b R:conf-a B=2"},
    {"each gang its rack",
     "3 gpu configured cluster=x rack=rack-a stamp=0; 3 gpu configured cluster=x rack=rack-b "
     "stamp=1",
     "3 x gpu p=1 same=rack group=A; 3 x gpu p=1 same=rack group=B",
     "dom0=rack-a dom1=rack-b quiet"},
    {"own before others",
     "g-mmm gpu configured cluster=x rack=rack-x stamp=0; g-nnn gpu configured cluster=x "
     "rack=rack-x "
     "stamp=0; g-aaa gpu configured cluster=x rack=rack-x",
     "2 x gpu p=1 same=rack group=g", "claims:g-mmm+g-nnn R:g-aaa"},
    {"own before others, one configuring",
     "g-mmm gpu configured cluster=x rack=rack-x stamp=0; g-nnn gpu configured cluster=x "
     "rack=rack-x "
     "stamp=0; g-aaa gpu configuring cluster=x rack=rack-x",
     "2 x gpu p=1 same=rack group=g", "claims:g-mmm+g-nnn"},

    /* ranking of domains */
    {"rank: total", "1 cpu idle rack=a; 2 cpu idle rack=b", "2 x cpu p=1 same=rack", "dom0=b"},
    {"rank: smaller total", "4 cpu idle rack=a; 3 cpu idle rack=b",
     "0 x cpu p=1 same=rack agg=cpu:10 min=cpu:4", "dom0=b"},
    {"rank: covers more", "1 cpu idle rack=a; 3 cpu idle rack=b", "5 x cpu p=1 same=rack",
     "dom0=b"},
    {"rank: count",
     "1 cpu idle rack=a alloc=cpu:8; 2 cpu idle rack=b alloc=cpu:4; "
     "1 cpu configured cluster=y rack=z",
     "0 x cpu p=1 same=rack agg=cpu:9 min=cpu:4", "dom0=b"},
    {"rank: count among the satisfiable", "2 cpu idle rack=a alloc=cpu:8; 4 cpu idle rack=b",
     "0 x cpu p=1 same=rack agg=cpu:12 min=cpu:4", "dom0=b B=3"},
    {"rank: nothing to rank", "2 cpu idle rack=a type=other", "2 x cpu p=1 same=rack",
     "B=0 dom0= X=1 why0=TOPOLOGY_UNSATISFIABLE cand0="},
    {"coverage, best first",
     "1 cpu idle rack=rack-1; 2 cpu idle rack=rack-2; 1 cpu idle rack=rack-3 "
     "alloc=cpu:6; 4 cpu idle rack=rack-0 type=other",
     "0 x cpu p=1 same=rack agg=cpu:16 min=cpu:4",
     "dom0=rack-2 cand0=rack-2:500+rack-3:375+rack-1:250"},
    {"coverage is that of the scarcest dimension",
     "1 cpu idle rack=a alloc=cpu:8,memory:1Gi; 1 cpu idle rack=b alloc=cpu:2,memory:4Gi;"
     "1 cpu idle rack=c alloc=memory:4Gi",
     "0 x cpu p=1 same=rack agg=cpu:8,memory:4Gi min=-", "cand0=a:250+b:250+c:0"},
    {"six are named",
     "1 cpu idle rack=r1; 1 cpu idle rack=r2; 1 cpu idle rack=r3; 1 cpu idle rack=r4;"
     "1 cpu idle rack=r5; 1 cpu idle rack=r6; 1 cpu idle rack=r7; 1 cpu idle rack=r8",
     "2 x cpu p=1 same=rack", "cand0=r1:500+r2:500+r3:500+r4:500+r5:500+r6:500"},
    {"rank: name", "2 cpu idle rack=b; 2 cpu idle rack=a", "2 x cpu p=1 same=rack", "dom0=a"},
    {"rank: capped per dimension",
     "2 cpu idle rack=a alloc=cpu:32; 2 cpu idle rack=b alloc=cpu:8,memory:16Gi",
     "0 x cpu p=1 same=rack agg=cpu:16,memory:64Gi min=cpu:4", "dom0=b"},
    {"rank: joint total", "2 cpu idle rack=a; 1 cpu configured cluster=x rack=b; 2 cpu idle rack=b",
     "3 x cpu p=1 same=rack", "dom0=b"},
    {"rank: creditable beats smaller", "2 cpu idle rack=a; 3 cpu configured cluster=x rack=b",
     "0 x cpu p=1 same=rack agg=cpu:6 min=cpu:4", "dom0=b"},
    {"rank: creditable beats name", "2 cpu idle rack=a; 2 cpu configured cluster=x rack=b",
     "2 x cpu p=1 same=rack", "dom0=b"},
    {"rank: coverage beats creditable", "2 cpu configured cluster=x rack=a; 3 cpu idle rack=b",
     "5 x cpu p=1 same=rack", "dom0=b"},
    {"rank: equal coverage, incumbent", "2 cpu idle rack=a; 2 cpu configured cluster=x rack=b",
     "5 x cpu p=1 same=rack", "dom0=b"},
    {"rank: least over-commitment",
     "5 cpu idle rack=big alloc=cpu:1; 3 cpu idle rack=small alloc=cpu:1",
     "0 x cpu p=1 same=rack agg=cpu:3 min=cpu:1", "dom0=small"},

    {"rank: own beats the smaller total",
     "3 cpu configured cluster=x rack=x alloc=cpu:1 stamp=0; 3 cpu configured cluster=x rack=x "
     "alloc=cpu:1; 3 cpu configured cluster=x rack=y alloc=cpu:1",
     "0 x cpu p=1 same=rack group=g agg=cpu:3 min=cpu:1", "dom0=x R=6"},
    {"rank: creditable beats own",
     "4 cpu configured cluster=x rack=p alloc=cpu:1; 2 cpu configured cluster=x rack=q alloc=cpu:1 "
     "stamp=0; 2 cpu idle rack=q alloc=cpu:1",
     "0 x cpu p=1 same=rack group=g agg=cpu:4 min=cpu:1", "dom0=p"},
    {"rank: equal credit, smaller total",
     "3 cpu configured cluster=x rack=small alloc=cpu:1; 3 cpu configured cluster=x rack=big "
     "alloc=cpu:1; 2 cpu idle rack=big alloc=cpu:1",
     "0 x cpu p=1 same=rack group=g agg=cpu:3 min=cpu:1", "dom0=small"},

    /* 13.6 spread */
    {"even", "4 gpu idle zone=a; 4 gpu idle zone=b; 4 gpu idle zone=c",
     "6 x gpu p=1 spread=zone:1:hard", "B=6 B~a=2 B~b=2 B~c=2"},
    {"an exhausted zone holds the rest", "1 gpu idle zone=a; 5 gpu idle zone=b; 5 gpu idle zone=c",
     "6 x gpu p=1 spread=zone:1:hard", "B=5 B~a=1 B~b=2 B~c=2 d0=gpu:8"},
    {"skew two", "5 gpu idle zone=a; 5 gpu idle zone=b", "8 x gpu p=1 spread=zone:2:hard",
     "B=8 U=0"},
    {"soft is ignored", "6 gpu idle zone=a price=1; 2 gpu idle zone=b price=5",
     "4 x gpu p=1 spread=zone:1:soft", "B=4 B~a=4"},
    {"hard beats price", "3 gpu idle zone=a price=1; 3 gpu idle zone=b price=5",
     "4 x gpu p=1 spread=zone:1:hard", "B=4 B~a=2 B~b=2"},
    {"held machines count (D4)",
     "2 gpu configured cluster=x zone=a; 3 gpu idle zone=a price=1;"
     "3 gpu idle zone=b price=5",
     "4 x gpu p=1 spread=zone:1:hard", "B=2 B~b=2 U=0"},
    {"idle and quota are one choice (D4)", "2 gpu idle zone=a; 2 gpu speculative zone=b",
     "4 x gpu p=1 spread=zone:1:hard", "B=2 P=2 U=0"},

    {"a spread takes nothing that is kept for another",
     "a-1 gpu idle zone=a; a-2 gpu idle zone=a for=1 idle=3599000; 2 gpu idle zone=b",
     "4 early gpu p=10 arrival=1 spread=zone:1:hard; 1 late gpu p=10 arrival=2",
     "B@early=3 B@late=1 d0=gpu:8"},
    {"what is kept for another is no domain",
     "a-1 gpu idle zone=a for=1 idle=3599000; 3 gpu idle zone=b",
     "3 early gpu p=10 arrival=1 spread=zone:1:hard; 1 late gpu p=10 arrival=2",
     "B@early=3 B@late=1 U=0"},
    {"Phase 2 counts what Phase 1 held, whatever came between (D4)",
     "a-1 gpu configured cluster=x zone=a; a-2 gpu configured cluster=x zone=a; b-1 gpu idle "
     "zone=b;"
     "y-1 gpu configured cluster=y zone=c price=1 prio=5000; y-2 gpu configured cluster=y zone=a "
     "price=2 prio=5000;"
     "v gpu configured cluster=batch zone=a prio=0",
     "4 x gpu p=1000 spread=zone:1:hard; 3 y gpu p=999 spread=zone:1:hard",
     "B=1 E:v x0=gpu:8 vic0=0 vic1=1 ready:x+y"},
    {"a domain that joins in Phase 2 is the emptiest",
     "2 gpu configured cluster=x zone=a; 2 gpu configured cluster=x zone=b;"
     "m1 gpu configured cluster=batch zone=c prio=0; m2 gpu configured cluster=batch zone=a prio=0;"
     "m3 gpu configured cluster=batch zone=c prio=0",
     "6 x gpu p=1000 spread=zone:1:hard", "E:m1+m3 X=0 ready:x"},

    /* 13.7 normalising */
    {"three gangs fold", "m cpu configured cluster=c1 type=r6i alloc=cpu:16,memory:128Gi rack=r1",
     "0 c1 cpu type=r6i p=1000 same=rack group=a arrival=300 agg=cpu:8,memory:64Gi min=cpu:2;"
     "0 c1 cpu type=r6i p=1000 same=rack group=b arrival=100 agg=cpu:8,memory:64Gi min=cpu:2;"
     "0 c1 cpu type=r6i p=1000 same=rack group=c arrival=200 agg=cpu:8,memory:64Gi min=cpu:2",
     "rows=1 agg0=cpu:24,memory:192Gi min0=cpu:8,memory:64Gi arr0=100 gang0=0"},
    {"spread, priority and buckets survive a fold",
     "m cpu configured cluster=c1 type=r6i alloc=cpu:16,memory:128Gi rack=r1",
     "0 c1 cpu type=r6i p=1000 ib=15 rb=18 same=rack spread=zone:1:hard group=a agg=cpu:8 "
     "min=cpu:2",
     "rows=1 fp0=p=1000|ipb=15|rpb=18|reqs=node.kubernetes.io/instance-type:1:r6i;|"
     "spr=topology.kubernetes.io/zone:1:1;"},
    {"two sizes, two rows",
     "m cpu configured cluster=c1 type=r6i alloc=cpu:16,memory:128Gi rack=r1",
     "0 c1 cpu type=r6i p=1000 same=rack group=a agg=cpu:8,memory:64Gi min=cpu:2;"
     "0 c1 cpu type=r6i p=1000 same=rack group=b agg=cpu:4,memory:32Gi min=cpu:2;"
     "0 c1 cpu type=r6i p=1000 same=rack group=c agg=cpu:8,memory:64Gi min=cpu:2",
     "rows=2 agg0=cpu:4,memory:32Gi agg1=cpu:16,memory:128Gi min1=cpu:8,memory:64Gi"},
    {"too big to fold", "m cpu configured cluster=c1 type=r6i alloc=cpu:16,memory:128Gi rack=r1",
     "0 c1 cpu type=r6i p=1000 same=rack group=a agg=cpu:24,memory:192Gi min=cpu:2",
     "rows=1 gang0=1"},
    {"folds on idle", "m cpu idle type=r6i alloc=cpu:16,memory:128Gi rack=r1",
     "0 c1 cpu type=r6i p=1000 same=rack group=a agg=cpu:8,memory:64Gi min=cpu:2", "gang0=0"},
    {"folds on quota", "m cpu speculative type=r6i alloc=cpu:16,memory:128Gi rack=r1",
     "0 c1 cpu type=r6i p=1000 same=rack group=a agg=cpu:8,memory:64Gi min=cpu:2", "gang0=0"},
    {"another cluster's machine folds nothing",
     "m cpu configured cluster=c2 type=r6i alloc=cpu:16,memory:128Gi rack=r1",
     "0 c1 cpu type=r6i p=1000 same=rack group=a agg=cpu:8,memory:64Gi min=cpu:2;"
     "0 c2 cpu type=r6i p=1000 same=rack group=a agg=cpu:8,memory:64Gi min=cpu:2",
     "rows=2 row0=c1 gang0=1 row1=c2 gang1=0"},

    {"folds behind plain rows",
     "m cpu configured cluster=c1 type=r6i alloc=cpu:16,memory:128Gi rack=r1;"
     "n cpu configured cluster=c2 type=r6i alloc=cpu:16,memory:128Gi rack=r1",
     "0 c2 cpu type=r6i p=1000 same=rack group=a agg=cpu:8 min=cpu:2;"
     "0 c1 cpu p=1000 agg=cpu:2 min=cpu:1;"
     "0 c1 cpu type=r6i p=1000 same=rack group=b agg=cpu:8 min=cpu:2;"
     "0 c2 cpu p=1000 agg=cpu:3 min=cpu:1;"
     "0 c1 cpu type=r6i p=1000 same=rack group=c agg=cpu:8 min=cpu:2",
     "rows=4 row0=c1 agg0=cpu:2 row1=c1 agg1=cpu:16 min1=cpu:8 row2=c2 agg2=cpu:3 agg3=cpu:8"},
    {"no Same, unchanged", "", "1 a cpu p=1; 1 b cpu p=1", "rows=2 gang0=0 gang1=0"},

    /* 13.8 Phase 2 */
    {"nobody asks, nobody gives way", "4 gpu configured cluster=batch prio=0", "",
     "quiet ready:train"},
    {"four victims", "4 gpu configured cluster=batch prio=400000 ip=5 rp=1",
     "4 train gpu p=1000000", "E=4 grace=30 preemptor=1000000 X=0 ready:train"},
    {"equal priority is safe", "4 gpu configured cluster=batch prio=1000000",
     "2 train gpu p=1000000", "E=0 x0=gpu:16 vic0=0 ready:train"},
    {"the cheap victim",
     "v-cheap gpu configured cluster=batch prio=500000 ip=1 rp=1;"
     "v-exp gpu configured cluster=batch prio=500000 ip=100000 rp=1",
     "1 train gpu p=1000000", "E:v-cheap ready:train"},
    {"grace 10 s", "v gpu configured cluster=batch prio=0", "1 train gpu p=1000000",
     "E=1 grace=10 ready:train"},
    {"grace 30 s", "v gpu configured cluster=batch prio=499999", "1 train gpu p=1000000",
     "E=1 grace=30 ready:train"},
    {"grace 2 min", "v gpu configured cluster=batch prio=899999", "1 train gpu p=1000000",
     "E=1 grace=120 ready:train"},
    {"grace 10 min", "v gpu configured cluster=batch prio=999999", "1 train gpu p=1000000",
     "E=1 grace=600 ready:train"},
    {"grace at the edges: 10 s", "v gpu configured cluster=batch prio=99999",
     "1 train gpu p=1000000", "E=1 grace=10 ready:train"},
    {"grace at the edges: 30 s", "v gpu configured cluster=batch prio=100001",
     "1 train gpu p=1000000", "E=1 grace=30 ready:train"},
    {"grace at the edges: 2 min", "v gpu configured cluster=batch prio=500001",
     "1 train gpu p=1000000", "E=1 grace=120 ready:train"},
    {"grace at the edges: 10 min", "v gpu configured cluster=batch prio=900001",
     "1 train gpu p=1000000", "E=1 grace=600 ready:train"},
    {"the least important first",
     "v-a gpu configured cluster=batch prio=500;"
     "v-b gpu configured cluster=batch prio=400",
     "1 train gpu p=1000000", "E:v-b ready:train"},
    {"the cheap to reclaim first",
     "v-a gpu configured cluster=batch prio=500 ip=1 rp=10000;"
     "v-b gpu configured cluster=batch prio=500 ip=1 rp=1",
     "1 train gpu p=1000000", "E:v-b ready:train"},
    {"penalties of nothing give a finite score",
     "v-b gpu configured cluster=batch prio=500;"
     "v-a gpu configured cluster=batch prio=500",
     "1 train gpu p=1000000", "E:v-a ready:train"},
    {"victims where the gang begins",
     "1 gpu idle zone=zone-b;"
     "2 gpu configured cluster=batch zone=zone-a prio=400000;"
     "2 gpu configured cluster=batch zone=zone-b prio=400000",
     "3 train gpu p=1000000 same=zone", "dom0=zone-b B=1 E=2 E~zone-b=2 X=0 ready:train"},
    {"one victim, two preemptors", "v gpu configured cluster=batch prio=100000",
     "1 mid gpu p=500000; 1 high gpu p=1000000", "E=1 X=1 row1=mid x1=gpu:8 vic0=1 ready:mid+high"},
    {"too small a victim",
     "4 gpu configured cluster=batch prio=400000 alloc=gpu:4;"
     "v-big gpu configured cluster=batch prio=400000",
     "2 train gpu p=1000000", "E:v-big x0=gpu:8 ready:train"},
    {"no domain, no victims", "4 gpu configured cluster=batch zone=zone-a prio=400000",
     "4 train gpu p=1000000 same=zone", "E=0 x0=gpu:32 ready:train"},
    {"parked",
     "1 gpu configured cluster=train zone=zone-a prio=1000000;"
     "4 gpu configured cluster=batch zone=zone-a prio=400000; 1 gpu idle zone=zone-a",
     "4 train gpu p=1000000 same=zone parked",
     "E=0 B=0 cl0=1 x0=gpu:24 why0=TOPOLOGY_UNSATISFIABLE ready:train"},
    {"victims of the domain only",
     "2 gpu configured cluster=train zone=zone-a prio=2000;"
     "2 gpu configured cluster=batch zone=zone-a prio=1000;"
     "4 gpu configured cluster=batch zone=zone-b prio=1000",
     "4 train gpu p=2000 same=zone", "dom0=zone-a E=2 E~zone-a=2 X=0 ready:train"},
    {"partial preemption", "v gpu configured cluster=batch prio=400000", "2 train gpu p=1000000",
     "E=1 X=1 vic0=1 freed0=gpu:8 why0=PREEMPTION_EXHAUSTED ready:train"},
    {"inversion end to end", "4 gpu configured cluster=batch prio=100000", "4 train gpu p=1000000",
     "U=1 E=4 then B=4 B@train=4 then quiet ready:train"},
    {"excess before victims (D6)",
     "e gpu configured cluster=done prio=0;"
     "v gpu configured cluster=batch prio=0",
     "1 train gpu p=1000000", "E:e grace=10 R= X=0 vic0=0 ready:train+done"},
    {"excess of an equal priority stays a Reclaim", "e gpu configured cluster=done prio=5",
     "1 train gpu p=5", "E=0 R:e X=0 ready:train+done"},
    {"a draining machine counts (D5)",
     "d gpu draining cluster=batch for=0;"
     "2 gpu configured cluster=batch prio=0",
     "1 train gpu p=1000000", "E=0 X=0 U=1 ready:train"},
    {"a draining machine of another counts not (D5)",
     "d gpu draining cluster=batch for=1;"
     "v gpu configured cluster=batch prio=0",
     "1 train gpu p=1000000; 0 other gpu p=5 agg=-", "E:v X=0 ready:train"},
    {"a claimed machine has its claimer's priority (D6)",
     "v gpu configured cluster=batch prio=0; w gpu configured cluster=low prio=0",
     "1 batch gpu p=2000000; 1 train gpu p=1000000; 1 low gpu p=10", "E:w"},
    {"the gap needs 64 bits (D7)", "v gpu configured cluster=batch prio=-2147483648",
     "1 train gpu p=2147483647", "E=1 grace=10 ready:train"},
    {"a draining machine of nobody counts for who needs it first",
     "d gpu draining cluster=batch; v gpu configured cluster=batch prio=0",
     "1 train gpu p=1000000; 1 late gpu p=999999", "E:v x0= vic0=0 vic1=1 X=0 ready:train+late"},
    {"a draining machine elsewhere is no use to a gang",
     "1 gpu idle zone=b; d gpu draining cluster=batch zone=a; v gpu configured cluster=batch "
     "zone=b prio=0",
     "2 x gpu p=10 same=zone", "dom0=b B=1 E:v X=0 ready:x"},
    {"kept for its preemptor (D5)", "i gpu idle for=1 idle=3599000",
     "1 early gpu p=10 arrival=1; 1 late gpu p=10 arrival=2", "B@late=1 B=1 U=1"},
    {"kept, but not from a higher priority", "i gpu idle for=1 idle=3599000",
     "1 early gpu p=11 arrival=1; 1 late gpu p=10 arrival=2", "B@early=1 B=1"},
    {"kept for a minute only", "i gpu idle for=1 idle=3540000",
     "1 early gpu p=10 arrival=1; 1 late gpu p=10 arrival=2", "B@early=1 B=1"},

    {"a gang stays where machines are kept for it (D12)",
     "2 gpu idle zone=a; b-1 gpu idle zone=b for=0 idle=3599000; b-2 gpu idle zone=b for=0 "
     "idle=3599000",
     "2 x gpu p=10 same=zone group=g", "B:b-1+b-2 dom0=b then quiet"},
    {"but not for long",
     "2 gpu idle zone=a; b-1 gpu idle zone=b for=0 idle=3540000; b-2 gpu idle zone=b for=0 "
     "idle=3540000",
     "2 x gpu p=10 same=zone group=g", "B=2 dom0=a"},

    /* 13.9 Phase 3 */
    {"no demand", "4 gpu configured cluster=a", "", "R=4 grace=600 preemptor=0"},
    {"as wanted", "3 gpu configured cluster=a", "3 a gpu p=1", "quiet"},
    {"the dear ones go", "3 gpu configured cluster=a price=6; 2 gpu configured cluster=a price=0",
     "3 a gpu p=1", "R=2 R:i001+i002"},
    {"the cheap to reclaim goes",
     "a0 gpu configured cluster=a rp=0; a1 gpu configured cluster=a rp=5000", "1 a gpu p=1",
     "R:a0"},
    {"a dead stamp is no reason", "m gpu configured cluster=a stamp=1",
     "1 a gpu p=1; 0 b gpu p=9 agg=-", "claims:m quiet"},
    {"empty machines go at any price",
     "cheap gpu configured cluster=a price=1 runs=-; dear gpu configured cluster=a price=6 runs=e",
     "1 a gpu p=1", "R:cheap"},
    {"empty machines go before those without a report",
     "known gpu configured cluster=a price=1 runs=-; new gpu configured cluster=a price=6",
     "1 a gpu p=1", "R:known"},
    {"an empty machine serves what else would be bought",
     "e gpu configured cluster=a runs=-; i gpu idle", "1 a gpu p=1", "claims:e B=0 R=0"},
    {"of busy machines the dear ones go",
     "3 gpu configured cluster=a price=6 runs=e; 2 gpu configured cluster=a price=0 runs=e",
     "3 a gpu p=1", "R=2 R:i001+i002"},
    {"of busy machines with one price the least disruption goes",
     "m1 gpu configured cluster=a rp=9 runs=e costs=3; m2 gpu configured cluster=a runs=e costs=9",
     "1 a gpu p=1", "R:m1"},
    {"a held machine is no excess", "3 gpu configured cluster=a runs=h", "", "quiet"},
    {"a held machine is kept before cheaper ones",
     "h gpu configured cluster=a price=6 runs=h; c gpu configured cluster=a price=1 runs=e",
     "1 a gpu p=1", "claims:h R:c"},
    {"a held machine of nobody can be preempted", "h gpu configured cluster=batch prio=5 runs=h",
     "1 train gpu p=1000000", "E:h grace=10 vic0=1 R=0 ready:train+batch"},
    {"a held machine is not promised to an equal", "h gpu configured cluster=batch prio=5 runs=h",
     "1 train gpu p=5", "E=0 R=0 X=1 ready:train+batch"},
    {"an empty machine is taken before a cheaper busy one",
     "b gpu configured cluster=done price=1 runs=e; e gpu configured cluster=done price=6 runs=-",
     "1 train gpu p=5", "E:e X=0 R:b ready:train+done"},
    {"three of four", "4 gpu configured cluster=a", "1 a gpu p=1", "R=3"},
    {"six of ten", "10 gpu configured cluster=a", "4 a gpu p=1", "R=6"},
    {"dense", "2 cpu configured cluster=a alloc=cpu:16,memory:32Gi",
     "0 a cpu p=1 agg=cpu:8,memory:32Gi min=cpu:1,memory:4Gi", "R=1"},
    {"off the domain", "3 gpu configured cluster=a zone=a; 2 gpu configured cluster=a zone=b",
     "3 a gpu p=1 same=zone", "R=2 R~b=2"},
    {"half a gang", "2 gpu configured cluster=a zone=a; 2 gpu configured cluster=a zone=b",
     "3 a gpu p=1 same=zone", "R=2 R/zones=1"},
    {"configuring counts",
     "2 gpu configuring cluster=a zone=a; 1 gpu configured cluster=a zone=a;"
     "3 gpu configured cluster=a zone=b",
     "3 a gpu p=1 same=zone group=g", "R=3 R~b=3"},
    {"two gangs, one spare",
     "a-0 gpu configured cluster=x zone=zone-a; b-0 gpu configured cluster=x zone=zone-b;"
     "2 gpu idle zone=zone-c",
     "2 x gpu p=1 same=zone group=g1; 2 x gpu p=1 same=zone group=g2", "R:b-0"},
    {"gate closed", "100 gpu configured cluster=a", "", "quiet ready:other"},
    {"only who reported", "10 gpu configured cluster=a; 10 gpu configured cluster=b", "",
     "R=10 R@a=10 ready:a"},
    {"dearest first (D8)", "x gpu configured cluster=a price=1; y gpu configured cluster=a price=3",
     "", "R=2 R:x+y"},
    {"holds at two minutes",
     "bm gpu idle capacity=1 idle=3480000; rs gpu idle capacity=2 idle=3480000;"
     "od gpu idle capacity=3 idle=3480000; sp gpu idle capacity=4 idle=3480000;"
     "un gpu idle capacity=0 idle=3480000",
     "", "D:sp D@=1"},
    {"holds at eleven minutes",
     "bm gpu idle capacity=1 idle=2940000; rs gpu idle capacity=2 idle=2940000;"
     "od gpu idle capacity=3 idle=2940000; sp gpu idle capacity=4 idle=2940000;"
     "un gpu idle capacity=0 idle=2940000",
     "", "D:od+sp"},
    {"a claimed idle one is not deleted", "od gpu idle capacity=3 idle=1", "1 a gpu p=1",
     "B:od D=0"},
    {"both kinds", "2 gpu configured cluster=a; sp gpu idle capacity=4 idle=3480000", "",
     "R=2 D:sp"},

    /* what our own rules add */
    {"creating counts for its cluster only (D2)", "c gpu creating stamp=0; s gpu speculative",
     "1 a gpu p=1; 1 b gpu p=1", "claims:c+s P:s P@b=1 U=0"},
    {"a creating machine of nobody counts for who needs it first",
     "c gpu creating; s gpu speculative", "1 a gpu p=2; 1 b gpu p=1", "claims:c+s P:s P@b=1 U=0"},
    {"it must match", "c gpu creating type=other; s gpu speculative", "1 a gpu p=2", "P:s"},
    {"a gang goes where machines are being created for nobody",
     "2 gpu idle zone=a; 2 gpu creating zone=b", "2 x gpu p=1 same=zone", "dom0=b quiet"},
    {"own first for plain rows (D11)",
     "a0 cpu configured cluster=a stamp=1; a1 cpu configured cluster=a price=9 stamp=0",
     "1 a cpu p=5 ib=14; 1 a cpu p=5 ib=13", "quiet claims:a0+a1"},
    {"a served gang is not moved (D12)",
     "2 gpu configured cluster=x zone=b stamp=0; 1 gpu configured cluster=x zone=a;"
     "1 gpu configuring cluster=x zone=a",
     "2 x gpu p=1 same=zone group=g", "dom0=b R=1 R~a=1"},
    {"a queued bootstrap counts", "i gpu idle queued=bootstrap:0; j gpu idle", "1 a gpu p=1",
     "quiet U=0"},
    {"a queued provision counts", "s gpu speculative queued=provision:0; t gpu speculative",
     "1 a gpu p=1", "quiet U=0"},
    {"a queued preempt counts",
     "v gpu configured cluster=b prio=0 queued=preempt:0;"
     "w gpu configured cluster=b prio=0",
     "1 a gpu p=9", "quiet U=1 X=0 ready:a"},
    {"a queued delete is gone", "i gpu idle queued=delete:-", "1 a gpu p=1",
     "quiet U=1 why0=NO_MATCHING_SUPPLY"},
    {"what has nothing of it is not claimed (D13)",
     "1 cpu configured cluster=a alloc=memory:64Gi; 1 cpu idle", "0 a cpu p=1 agg=cpu:4 min=-",
     "B=1 R=1"},
};

const struct fleet_text *decide_vectors(size_t *ret_count)
{
    *ret_count = sizeof vectors / sizeof vectors[0];
    return vectors;
}
