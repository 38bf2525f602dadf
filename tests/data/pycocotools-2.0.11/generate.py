"""Annotations of COCO with masks in all three notations, and the class of each pixel by pycocotools."""
import json, os, random
import numpy as np
from PIL import Image
from pycocotools import mask as M
from pycocotools.coco import COCO
random.seed(7); rng=np.random.default_rng(7)
D='./'
for d in ['annotations','masks','val2017']: os.makedirs(D+d,exist_ok=True)
cats=[{"id":18,"name":"dog","supercategory":"animal"},{"id":1,"name":"person","supercategory":"person"},{"id":90,"name":"toothbrush","supercategory":"indoor"}]
images=[];anns=[];aid=1
sizes=[(37,23),(64,48),(5,7),(40,40),(1,9),(33,50)]
for i,(w,h) in enumerate(sizes):
    images.append({"license":4,"file_name":f"{i:012d}.png","width":w,"height":h,"id":1000-i,"date_captured":"2013-11-14 17:02:52"})
    if i==3: continue  # without annotations
    for k in range(5 if i!=4 else 2):
        cat=random.choice([1,18,90]); kind=random.choice(['poly','poly','rle','text'])
        if k==0: kind='poly'
        if k==1: kind='rle'
        if k==2: kind='text'
        if kind=='poly':
            segs=[]
            for _ in range(random.choice([1,1,2])):
                n=random.randint(3,9)
                style=random.choice(['in','out','int','star'])
                if style=='out': pts=[(random.uniform(-5,w+5),random.uniform(-5,h+5)) for _ in range(n)]
                elif style=='int': pts=[(random.randint(0,w),random.randint(0,h)) for _ in range(n)]
                else: pts=[(random.uniform(0,w),random.uniform(0,h)) for _ in range(n)]
                if style=='star': pts.append(pts[-1])
                segs.append([round(float(c),2) for p in pts for c in p])
            rle=M.merge(M.frPyObjects(segs,h,w)); seg=segs
        else:
            m=np.zeros((h,w),np.uint8,order='F'); 
            y0,x0=rng.integers(0,h),rng.integers(0,w); m[y0:y0+rng.integers(1,h+1),x0:x0+rng.integers(1,w+1)]=1
            m[rng.random((h,w))<0.1]^=1; m=np.asfortranarray(m)
            rle=M.encode(m)
            if kind=='text': seg={"size":[h,w],"counts":rle['counts'].decode()}
            else:
                flat=m.flatten(order='F'); c=[];v=0;run=0
                for p in flat:
                    if p==v: run+=1
                    else: c.append(run);v=int(p);run=1
                c.append(run); seg={"size":[h,w],"counts":[int(x) for x in c]}
        bb=[round(float(x),2) for x in M.toBbox(rle)]
        anns.append({"segmentation":seg,"area":float(M.area(rle)),"iscrowd":int(kind=='rle'),"image_id":1000-i,"bbox":bb,"category_id":cat,"id":aid}); aid+=1
random.shuffle(anns)
doc={"info":{"description":"made for tests","version":"1.0"},"licenses":[{"id":4,"name":"none","url":""}],"images":images,"annotations":anns,"categories":cats}
json.dump(doc,open(D+'annotations/instances_val2017.json','w'))
json.dump({"info":doc["info"],"images":images,"annotations":[{"image_id":a["image_id"],"id":a["id"],"caption":f"caption {a['id']}"} for a in anns]},open(D+'annotations/captions_val2017.json','w'),indent=1)
coco=COCO(D+'annotations/instances_val2017.json')
order={c:n for n,c in enumerate(sorted(c["id"] for c in cats))}
out={}
for im in images:
    h,w=im["height"],im["width"]; cls=np.zeros((h,w),np.uint8)
    for a in coco.loadAnns(coco.getAnnIds(imgIds=im["id"])):
        m=coco.annToMask(a).astype(bool); v=order[a["category_id"]]+1
        old=cls[m]; cls[m]=np.where((old==0)|(old==v),v,255)
    Image.fromarray(cls,'L').save(D+'masks/'+im["file_name"],optimize=True)
    Image.fromarray(rng.integers(0,255,(h,w,3),dtype=np.uint8)).resize((w,h)).save(D+'val2017/'+im["file_name"])
