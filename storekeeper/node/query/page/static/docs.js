// The OpenAPI document in Swagger UI. Requests carry the token that was given on the page at `/`.
import { token } from "./node.js";

globalThis.SwaggerUIBundle({
  dom_id: "#docs",
  url: "/openapi.json",
  deepLinking: true,
  validatorUrl: null, // the default one is another host
  requestInterceptor: (request) => {
    if (token.get()) request.headers.authorization = `Bearer ${token.get()}`;
    return request;
  },
});
