"""The attention page: every attention of a few sentences in one offline HTML file."""
