// The engine in a worker, which answers messages; a page that starts no worker takes DikkatService instead.
globalThis.DikkatService = Service;

if (typeof WorkerGlobalScope !== "undefined") {
  const service = new Service((message) => globalThis.postMessage(message));
  globalThis.onmessage = ({ data }) => service.receive(data);
}
