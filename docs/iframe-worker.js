// Browsers refuse to start a web worker for a page that is opened from disk. The search runs in one; from disk it runs in a
// hidden frame instead, which gets and sends the same messages.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.importScripts = (...urls) => Promise.all(urls.map((one) => this.load(one)));
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.ready = this.load(url);
  }

  load(url) {
    const script = this.inside.document.createElement("script");
    script.src = url;
    this.inside.document.body.append(script);
    return new Promise((resolve, reject) => Object.assign(script, { onload: resolve, onerror: reject }));
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
  }

  terminate() {
    this.inside.frameElement.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = IFrameWorker;
}
